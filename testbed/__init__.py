"""A real control plane, and nodes for it, on the machine that runs the tests.

`testbed.build` makes the programs, `testbed.control_plane` runs them, `testbed.hollow` adds nodes without kubelets.
Nothing here is part of the product; the product's packages never import it.
"""


class Unavailable(Exception):
    """This machine cannot have a part of the testbed, for the reason in the text.

    Raised by whatever builds or fetches; a test that needs the part skips and shows the reason.
    """
