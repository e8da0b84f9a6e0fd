"""The routing policy: who goes next, to which pod, and what a late request is blamed on.

The router and the simulator both run it. It is pure: time comes in as a number, nothing is awaited,
read or written. Either side keeps its own pods and requests and shows them as these modules ask.
"""
