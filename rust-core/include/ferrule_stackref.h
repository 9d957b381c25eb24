#ifndef FERRULE_STACKREF_H
#define FERRULE_STACKREF_H
#include "ferrule_core.h"
#endif
