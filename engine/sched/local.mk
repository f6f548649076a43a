# files of engine/sched
