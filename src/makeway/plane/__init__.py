"""What every control plane needs: parts that decide, and a loop that waits and writes for them."""
