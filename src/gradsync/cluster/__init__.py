"""The emulated cluster: network namespaces of this machine as nodes, each with a shaped link and a CPU share."""
