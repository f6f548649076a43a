/* Makes vectors of passages of projects' files, where an engine embeds (fcgi/process/side_model.h):
 * a thread of the recorder with a connection of its own, since exactly one recorder exists. It
 * takes a few passages at a time and rests between them, longer while answers run; what fails is
 * tried again. What it has done is in the database, so another recorder goes on there. */
#pragma once

struct passage_follower;
struct side_model;

struct passage_follower_params { /* must outlive it */
    const char *db_path;
    const struct side_model *model;
    const char *status_path; /* of the engine that answers */
};
/* NULL: there is no memory, or no thread; the search goes by words alone then. */
struct passage_follower *passage_follower_start(const struct passage_follower_params *p);
/* Waits until its step is over: some 100 ms. Accepts NULL. */
void passage_follower_stop(struct passage_follower **f);
