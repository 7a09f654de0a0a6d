"""What runs beside the API server in a cluster: hollow versions of the controllers that the operator relies on.

They act in the same virtual time, with the delays of real ones, and through the server's own verbs where those have
rules. They watch the store directly: their reads are not under test.
"""
