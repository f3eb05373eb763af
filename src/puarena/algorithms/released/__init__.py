"""What the published code really ran: small subclasses that override only what differs from the definitions.

Registered as ``<name>@released``. Only they explain the published numbers; nothing outside this folder knows them.
"""
