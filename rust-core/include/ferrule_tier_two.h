/* How tier 2 frees what it has compiled: Python/optimizer.c includes this file where the frame core is Rust. */
#ifndef FERRULE_TIER_TWO_H
#define FERRULE_TIER_TWO_H

/* Gives up what the exits of an executor that is being freed lead to. Each exit has a reference of its own, or leads to
   a cold exit, which is immortal. What nobody else has is freed too, and what its exits lead to: one after the other, as
   chains of executors may be longer than the C stack is. An executor holds nothing but executors, so no Python code
   runs here: neither a destructor, nor what the trashcan keeps for later. Whoever drops executors counts on that. */
static void
give_exits_up(_PyExecutorObject *freed)
{
    /* A list of what is freed. None of it is linked any more, so `links.next` is at hand. */
    _PyExecutorObject *last = freed;
    last->vm_data.links.next = NULL;
    for (_PyExecutorObject *executor = freed; executor != NULL; executor = executor->vm_data.links.next) {
        for (uint32_t i = 0; i < executor->exit_count; i++) {
            _PyExecutorObject *next = (_PyExecutorObject *)executor->exits[i].executor;
            if (Py_REFCNT(next) != 1) {
                Py_DECREF(next);
                continue;
            }
            unlink_executor(next);
            next->vm_data.links.next = NULL;
            last->vm_data.links.next = next;
            last = next;
        }
        executor->exit_count = 0;
    }
    for (_PyExecutorObject *executor = freed->vm_data.links.next; executor != NULL;) {
        _PyExecutorObject *next = executor->vm_data.links.next;
        Py_DECREF(executor);
        executor = next;
    }
}

#endif
