"""What publishers sign and hosts believe: versions, bundles, signatures.  Pure; knows no engine, socket or hook."""
