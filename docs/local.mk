# files of docs
