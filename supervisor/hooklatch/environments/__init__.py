"""The environments of sources: another interpreter with packages of its own, found or made, and a zygote for each.

environment = await environments.acquire_required(requirements, may_make=True)
...  # run its workers
environments.release(environment)
"""
