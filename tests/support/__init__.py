"""What tests of more than one folder use: real daemons and pools, clients, scripted peers, and looks for leaks.

Knows the parts under test; holds no test.
"""
