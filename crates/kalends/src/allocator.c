/* Parameters of the allocator of glibc. Its functions are unsafe in Rust, and this one must run before
   the first thread allocates, so a constructor sets them. Other C libraries have no such parameters. */

#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>

/* Free memory, in bytes, that stays at the end of each arena. With the default of none, a burst of runs
   grows and shrinks the arena of every thread all the time: a system call for every fourth run. */
#define TOP_PAD (1024 * 1024)

__attribute__((constructor)) static void set_parameters(void) {
    mallopt(M_TOP_PAD, TOP_PAD);
}
#endif
