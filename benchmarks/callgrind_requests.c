/* What dynamo.py asks of callgrind while it runs: to count from now on, and to write the sum of what it has counted. */

#include <valgrind/callgrind.h>

void begin(void)
{
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void end(const char *name)
{
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
