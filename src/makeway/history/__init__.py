"""What is left of jobs and their attempts when their objects are gone."""
