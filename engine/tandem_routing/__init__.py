"""The routing policy: which request goes next, to which pod, and which cause a late request has.

Both the router and the simulator run it. The policy is pure: time comes in as a number, and the
code awaits, reads and writes nothing. Router and simulator keep their own pods and requests, and
present them through the protocols of these modules.
"""
