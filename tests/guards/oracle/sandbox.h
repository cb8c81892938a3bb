/* What the layers of the sandbox share: what they may say, and what each of them is given. */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NOBODY 65534
#define LOG 200          /* the descriptor on which stubs note their words; a low number would meet `exec 3>` */
#define REPORT 201       /* where the last layer says what is wrong; closed by execve() */
#define MAX_TEXT 100000  /* bytes; the kernel takes no argument of 128 KiB */
#define MAX_LOG (1 << 20)
#define NEST_KEY 7       /* of a message queue of the nest, which no text may see */

/* Built with -DWEAKER, one step is left out, which its environment names: tests see that an assertion stops it then. */
#ifdef WEAKER
extern int left_out;
#define WITHOUT left_out
#else
#define WITHOUT 0
#endif
#define STEP(number) if (WITHOUT != (number))

enum step {
    NO_OWN_NETWORK = 1, NO_LIMITS, NO_READ_ONLY_PROGRAMS, NO_DROPPED_CAPABILITIES, NO_DROPPED_BOUNDS, NO_CLEAN_ROOT,
    NO_CLOSED_DESCRIPTORS, NO_OWN_ROOT, NO_STUBS, NO_OWN_PROCESSES, NO_OWN_NAME, NO_MARK, NO_OWN_DEVICES,
    NO_OWN_MESSAGES, STEPS
};

enum kind { BASH, POSIX, DASH, KINDS }; /* POSIX: bash --posix, where `sh` is bash */

struct note { /* shared by the nest and the processes of a text */
    int32_t executed, ended, status;
};

struct nest { /* what a text's root is compared with */
    dev_t outside, own;
    ino_t stub;
    char mark[33];
};

/* Both say what is wrong and end with 99: `must` where the sandbox is not what it has to be, `given` where the machine
   does not give what it needs.  Tests are skipped for the second, never for the first. */
void must(bool claim, const char *what);
void given(bool claim, const char *what);
void no_rights(void);
void write_file(const char *path, const void *data, size_t size, mode_t mode);
void enter(const char *root);
bool lists(const char *folder, const char *const *names);
bool only_loopback(bool is_up);
void run_text(const struct nest *nest, enum kind kind, const char *text, int log, struct note *note);

#endif
