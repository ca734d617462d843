"""The Kubernetes REST protocol on top of the store: `handle(Request) -> Response`.

Way of a request: `listen` (HTTP and TLS) or the client's own transport in the same process, then
`app` (routes, access), then `verbs` (what may become of an object) and the store. Bodies are kept
and sent as bytes; only writes, selectors and tables look into them.
"""
