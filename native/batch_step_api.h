/* The batch step API: environments that another compiled module can step, many steps without Python and without the GIL.
 *
 * A batch (palaestra/envs/vector/batch.py) that offers it returns a PyCapsule of the name below. The capsule holds a struct
 * palaestra_batch_step_api, which lives as long as the capsule, as does everything it points to. Python handles the rare
 * cases: how an episode ended, and how the next one starts.
 *
 * A batch consists of worlds, the copies of an environment. A world has one agent or several; each agent is one row.
 *
 * Plain C without a library: a third-party package needs only a copy of this file. */
#ifndef PALAESTRA_BATCH_STEP_API_H
#define PALAESTRA_BATCH_STEP_API_H

#include <stddef.h>
#include <stdint.h>

#define PALAESTRA_BATCH_STEP_API "palaestra.batch_step_api"
#define PALAESTRA_BATCH_STEP_API_VERSION 1 /* increases with every change of the structs below */

/* A part of the observation; all rows are contiguous. */
typedef struct {
    const char* name;  /* "": the whole of an observation without named parts */
    const char* dtype; /* as in the rollout buffer: "uint8", "int64" or "float32" */
    int64_t items;     /* of one row */
} palaestra_batch_part;

typedef struct {
    uint32_t version;
    int32_t world_count, agents; /* world w has the rows from w * agents on */
    int32_t action_items;        /* of one row: int64 discrete actions, each counted from 0 */
    int32_t part_count;
    const palaestra_batch_part* parts; /* [part_count] */
    void* batch;                       /* first argument of all functions */

    /* Functions that return an int return 0 on success. Otherwise they write a null-terminated UTF-8 text to `message`
     * [room], and the training ends with it. They must not throw. */

    /* Between `begin` and `end` no other caller may step, reset or restore these worlds. */
    int (*begin)(void* batch, char* message, size_t room);
    void (*end)(void* batch);

    /* Steps the worlds [first_world, last_world) once. Several threads may call it at once, each for other worlds. Pointers
     * are at row 0 of the whole batch. Writes the observations after the step, part by part; the rewards; and for each of
     * these worlds in `ended` [world_count] whether its episode is over. A world that ended shows its final observation;
     * Python resets it before it is stepped again. */
    int (*step)(void* batch, int32_t first_world, int32_t last_world, const int64_t* actions, void* const* observations,
                float* rewards, uint8_t* ended, char* message, size_t room);
} palaestra_batch_step_api;

#endif
