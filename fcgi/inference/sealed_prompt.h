/* Where the setting prompt_cache_seal is on: gives the job its user's key, which the engine seals
 * the job's blocks on disk with, and a scope that says which key it is, so that what another key
 * has sealed is never looked for. Without the key nothing of the job is stored. Thread: the
 * request's. */
#pragma once
struct engine_job_params;
struct request;

void sealed_prompt_key(struct request *r, struct engine_job_params *job);
