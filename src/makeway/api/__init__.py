"""What users write and read: typed views of objects, one parser, defaults and validation.

Way of a document: `manifests` (text to documents) or the wire, then `intake.take_in`, which runs
`versions` (old spellings to today's), `codec` (document to view) and `validation` (view to errors).
Nothing here knows the engine, the store or the network.
"""
