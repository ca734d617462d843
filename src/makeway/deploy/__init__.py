"""What a Kubernetes cluster needs to run Makeway, and how it moves in and out."""
