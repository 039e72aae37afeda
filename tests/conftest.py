from hypothesis import HealthCheck, settings

# Speed is measured in benchmarks/, not here: a busy machine is no reason to fail.
settings.register_profile("orchard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("orchard")
