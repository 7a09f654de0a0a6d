"""How Ascend hardware and software behave: pure knowledge, no I/O but the package's own data tables.

Texts that vendor tools print become values here, and vendor numbers (PCI ids, fault codes, return codes, versions) get
their meaning. Nothing in this package runs a tool, reads a host file, looks at a clock or draws a random number.
"""
