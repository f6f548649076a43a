# files of engine/wire
