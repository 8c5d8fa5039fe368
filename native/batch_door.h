/* Worlds that another compiled module may step: many steps without Python, and without its lock.
 *
 * A batch (palaestra/envs/batch.py) that offers this hands out a PyCapsule of the name below, with a struct
 * palaestra_batch_door that lives as long as the capsule, and so must all that it points to. What is not here stays with
 * Python, because it is rare: how an episode ended and how the next one begins.
 *
 * Plain C, and no library: a copy of this file is all that a package of somebody else needs. */
#ifndef PALAESTRA_BATCH_DOOR_H
#define PALAESTRA_BATCH_DOOR_H

#include <stddef.h>
#include <stdint.h>

#define PALAESTRA_BATCH_DOOR "palaestra.batch_door"
#define PALAESTRA_BATCH_DOOR_VERSION 1 /* whatever changes below, it is another one then */

/* A part of an observation, of all rows one after the other. */
typedef struct {
    const char* name;  /* "": all of an observation without named parts */
    const char* dtype; /* as the trainer keeps it: "uint8", "int64" or "float32" */
    int64_t items;     /* of one row */
} palaestra_batch_part;

typedef struct {
    uint32_t version;
    int32_t world_count, agents; /* world w has the rows from w * agents on */
    int32_t action_items;        /* of one row: int64 choices, each counted from 0 */
    int32_t part_count;
    const palaestra_batch_part* parts; /* [part_count] */
    void* batch;                       /* first argument of all functions */

    /* Functions that give an int give 0, or anything else when they cannot: then `message` [room] says why, in UTF-8 and
     * ended by a zero, and the training ends with it. None of them may throw. */

    /* From here to `end` nobody else steps, resets or restores these worlds. */
    int (*begin)(void* batch, char* message, size_t room);
    void (*end)(void* batch);

    /* One step of the worlds from `first_world` to before `last_world`; several threads may be in here at once, each with
     * worlds of its own. Pointers are at row 0 of the whole batch, whichever worlds are stepped. Writes what is seen after
     * the step, part by part; rewards; and for each of these worlds in `ended` [world_count] whether its episode is over.
     * A world that ended shows its last observation. Python begins its next episode before it is stepped again. */
    int (*step)(void* batch, int32_t first_world, int32_t last_world, const int64_t* actions, void* const* seen,
                float* rewards, uint8_t* ended, char* message, size_t room);
} palaestra_batch_door;

#endif
