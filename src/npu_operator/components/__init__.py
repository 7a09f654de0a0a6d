"""What we deploy: one module per component, each a pure function from spec and cluster facts to Kubernetes objects.

Nothing here talks to a cluster, looks at a clock or draws a random number: the same input gives the same objects, in
the order in which they are applied. `placement` is the one place that knows what every pod gets; `build` puts it
together.
"""
