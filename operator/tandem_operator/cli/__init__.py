"""`tandem`, also `kubectl tandem`: simulate, plan, compare edits of a spec, explain decisions."""
