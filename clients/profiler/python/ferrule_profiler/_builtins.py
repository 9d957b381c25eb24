"""C functions: sys.monitoring reports their calls to the profile."""

import sys

EVENTS = {"CALL": "call", "C_RETURN": "c_return", "C_RAISE": "c_raise"}


class Builtins:
    """Takes the place of a profiler among the tools of sys.monitoring, until stop()."""

    def __init__(self, core):
        self.core = core
        self.has_id = False

    def start(self):
        monitoring = sys.monitoring
        try:
            monitoring.use_tool_id(monitoring.PROFILER_ID, "ferrule_profiler")
        except ValueError:
            taken = monitoring.get_tool(monitoring.PROFILER_ID)
            raise RuntimeError("C functions cannot be profiled: sys.monitoring has another"
                               f" profiler, {taken}") from None
        self.has_id = True
        for event, method in EVENTS.items():
            monitoring.register_callback(monitoring.PROFILER_ID, getattr(monitoring.events, event),
                                         getattr(self.core, method))
        # The events of ends come with those of calls.
        monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.CALL)

    def stop(self):
        if not self.has_id:
            return
        monitoring = sys.monitoring
        monitoring.set_events(monitoring.PROFILER_ID, 0)
        for event in EVENTS:
            monitoring.register_callback(monitoring.PROFILER_ID, getattr(monitoring.events, event),
                                         None)
        monitoring.free_tool_id(monitoring.PROFILER_ID)
