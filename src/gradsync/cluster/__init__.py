"""The emulated cluster: namespaces of this machine as nodes, with a shaped link and a share of the cores each."""
