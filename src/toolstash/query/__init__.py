"""Questions of rows: conditions, order, pipelines, metrics, search. Pure: no input or output in here."""
