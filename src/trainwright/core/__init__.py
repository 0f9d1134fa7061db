"""Words every layer uses: errors, names, quantities, objects, actions. Knows no job kind and does no I/O."""
