// What it declares is in device_language.h.
