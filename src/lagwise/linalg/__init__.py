"""Dense and iterative linear algebra that the estimators share."""
