"""The emulated cluster: nodes with a shaped link and a share of the cores each, made of namespaces on this machine."""
