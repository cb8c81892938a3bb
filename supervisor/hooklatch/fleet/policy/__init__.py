"""The versions, bundles and signatures that publishers make and hosts verify.  Pure: no engine, socket or hook."""
