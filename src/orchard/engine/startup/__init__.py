"""What happens to a model before it serves: calibration and warm-up."""
