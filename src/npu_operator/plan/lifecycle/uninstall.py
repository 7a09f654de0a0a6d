"""Uninstall, in any state: nothing of ours stays on a Node, no cordon of ours either.

The patch is the same whatever the state; what differs is what people have to be told. Modules stay loaded, since nobody
unloads them under running work; a rebooter that has already recorded its attempt cannot be stopped. Source: product.md
§4.17.
"""

from npu_operator.model import names
from npu_operator.model.node import Node
from npu_operator.model.reasons import Reason
from npu_operator.plan import marks
from npu_operator.plan.lifecycle.effects import Step
from npu_operator.plan.lifecycle.record import authorised


def undo(node: Node, *, is_our_driver_loaded: bool) -> Step:
    """Take back everything of ours on this Node."""
    told = ["our labels, annotations and our cordon are taken back"]
    if names.KEEP_CORDONED in node.annotations or (node.unschedulable and names.CORDON_MARK not in node.annotations):
        told = ["our labels and annotations are taken back, the cordon is somebody else's"]
    attempt = authorised(node)
    if attempt is not None:
        told.append(f"a reboot for attempt {attempt.id} was authorised and takes place if the rebooter has recorded it")
    if is_our_driver_loaded:
        told.append("the driver's modules stay loaded until the next boot")
    message = "; ".join(told)
    return Step(to=None, reason=Reason.Deleting, message=message, patch=marks.unmark(node, message))
