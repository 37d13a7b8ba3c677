"""The faces: claims, items, resources, rates, budgets, calendars, sagas. They turn arguments into commands and
outcomes into results."""
