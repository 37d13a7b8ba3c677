"""The faces: claims, items, resources, windows, sagas. Arguments into commands, outcomes into friendly results; no rules."""
