ENGINE_INCLUDE_NOTE = # programs of engine/ are listed here
