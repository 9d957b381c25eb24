/* How tier 2 frees executors: Python/optimizer.c includes this file where the
   frame core is Rust. */
#ifndef FERRULE_TIER_TWO_H
#define FERRULE_TIER_TWO_H

/* Releases the targets of the exits of an executor that is being freed. Each
   exit owns a reference, or leads to a cold exit, which is immortal. Executors
   with no other reference are freed too, one after the other, since a chain of
   them may be longer than the C stack. An executor owns nothing but executors,
   so no Python code runs here, neither a destructor nor what the trashcan has
   deferred. Callers of _Py_Executors_InvalidateAll() rely on that. */
static void
release_exits(_PyExecutorObject *freed)
{
    /* The list of those to free. None is linked any more, so `links.next` is
       unused. */
    _PyExecutorObject *last = freed;
    last->vm_data.links.next = NULL;
    _PyExecutorObject *executor = freed;
    while (executor != NULL) {
        for (uint32_t i = 0; i < executor->exit_count; i++) {
            _PyExecutorObject *target =
                (_PyExecutorObject *)executor->exits[i].executor;
            if (Py_REFCNT(target) != 1) {
                Py_DECREF(target);
                continue;
            }
            unlink_executor(target);
            target->vm_data.links.next = NULL;
            last->vm_data.links.next = target;
            last = target;
        }
        executor->exit_count = 0;
        executor = executor->vm_data.links.next;
    }
    executor = freed->vm_data.links.next;
    while (executor != NULL) {
        _PyExecutorObject *next = executor->vm_data.links.next;
        Py_DECREF(executor);
        executor = next;
    }
}

#endif
