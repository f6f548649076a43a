# files of engine/cpu
