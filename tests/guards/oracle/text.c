/* The layer of one text: namespaces, a root and limits of its own, all asserted directly before the shell is executed.

   A process of the nest makes the root; the first process of the new process namespace forks the shell, reaps, and ends
   after WALL, or GRACE after the shell (what runs in the background has that long): then the kernel ends all others. */
#define _GNU_SOURCE
#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WALL 2.0  /* seconds for a text */
#define GRACE 0.4 /* seconds for what it left behind when its shell ended */

static const char *const ROOT[] = {"ORACLE", "bin", "dev", "lib", "lib64", "tmp", "w", NULL};
static const char *const DEVICES[] = {"null", NULL};
static const char *const HIDDEN[] = {"/proc", "/sys", "/home", "/root", "/etc", "/usr", "/var", "/run", "/opt",
                                     "/old", "/posix", "/next", "/null", NULL};
static const char *const SAME_STUB[] = {"/bin/rm", "/bin/dd", "/bin/mkfs", "/bin/git", "/bin/prog0", NULL};
static const struct { int kind; rlim_t most; } LIMITS[] = {
    {RLIMIT_NPROC, 48}, {RLIMIT_CPU, 1}, {RLIMIT_FSIZE, 1 << 20}, {RLIMIT_AS, 1 << 28},
    {RLIMIT_NOFILE, 256}, {RLIMIT_CORE, 0}, {RLIMIT_STACK, 8 << 20},
};

/* Make the root that the text sees. */
static void make_root(const struct nest *nest, enum kind kind) {
    int own = CLONE_NEWNS;
    STEP(NO_OWN_MESSAGES) own |= CLONE_NEWIPC;
    STEP(NO_OWN_PROCESSES) own |= CLONE_NEWPID;
    STEP(NO_OWN_NETWORK) own |= CLONE_NEWNET;
    STEP(NO_OWN_NAME) own |= CLONE_NEWUTS;
    must(unshare(own) == 0, "a text has no namespaces");
    if (WITHOUT == NO_OWN_NAME) must(sethostname("other", 5) == 0, "its name");
    must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mounts are shared");
    must(mount("text", "/next", "tmpfs", MS_NOSUID | MS_NODEV, "size=2m,nr_inodes=200,mode=755") == 0, "no tmpfs");
    must(chdir("/next") == 0 && mkdir("bin", 0755) == 0 && mkdir("dev", 0755) == 0, "no folders");
    must(mkdir("tmp", 0755) == 0 && mkdir("w", 0755) == 0, "no folders");
    must(mount(kind == POSIX ? "/posix" : "/bin", "bin", NULL, MS_BIND, NULL) == 0, "no programs");
    STEP(NO_READ_ONLY_PROGRAMS)
    must(mount("none", "bin", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) == 0, "no programs");
    write_file("dev/null", "", 0, 0666);
    STEP(NO_OWN_DEVICES) must(mount("/null", "dev/null", NULL, MS_BIND, NULL) == 0, "no /dev/null");
    must(symlink("bin", "lib") == 0 && symlink("bin", "lib64") == 0, "no libraries");
    if (WITHOUT == NO_CLEAN_ROOT) must(mkdir("proc", 0755) == 0, "no folder");
    write_file("ORACLE", WITHOUT == NO_MARK ? "x" : nest->mark, WITHOUT == NO_MARK ? 1 : strlen(nest->mark), 0444);
    STEP(NO_OWN_ROOT) enter("/next");
}

/* Hold what the shell is given, and nothing else: no descriptor, no capability, no signal that is ignored. */
static void drop(int log) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    sigset_t no_signals;
    int in = open("/dev/null", O_RDONLY), out = open("/dev/null", O_WRONLY);
    must(setsid() > 0 && chdir("/w") == 0, "no session or folder of its own");
    must(in >= 0 && out >= 0 && dup2(log, LOG) == LOG && dup2(in, 0) == 0 && dup2(out, 1) == 1, "no descriptors");
    must(dup3(2, REPORT, O_CLOEXEC) == REPORT && dup2(out, 2) == 2, "no descriptors");
    STEP(NO_CLOSED_DESCRIPTORS) must(syscall(SYS_close_range, 3, LOG - 1, 0) == 0, "descriptors stay open");
    must(syscall(SYS_close_range, REPORT + 1, ~0u, 0) == 0, "descriptors stay open");
    STEP(NO_DROPPED_BOUNDS) for (int one = 0; one < 64; one++) prctl(PR_CAPBSET_DROP, one, 0, 0, 0);
    STEP(NO_DROPPED_CAPABILITIES) must(syscall(SYS_capset, &header, none) == 0, "it keeps capabilities");
    STEP(NO_LIMITS) for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++) {
        struct rlimit limit = {LIMITS[i].most, LIMITS[i].most};
        must(setrlimit(LIMITS[i].kind, &limit) == 0, "a limit cannot be set");
    }
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    must(sigemptyset(&no_signals) == 0 && sigprocmask(SIG_SETMASK, &no_signals, NULL) == 0, "signals are blocked");
}

static void is_own_root(const struct nest *nest) {
    struct stat found;
    struct statfs system;
    char mark[64];
    int fd = open("/ORACLE", O_RDONLY);
    ssize_t length = read(fd, mark, sizeof mark);
    must(fd >= 0 && close(fd) == 0 && length == (ssize_t)strlen(nest->mark), "the root is not this oracle's");
    must(!memcmp(mark, nest->mark, (size_t)length), "the root is not this oracle's");
    must(statfs("/", &system) == 0 && system.f_type == TMPFS_MAGIC, "the root is no tmpfs");
    must(stat("/", &found) == 0 && found.st_dev != nest->outside && found.st_dev != nest->own, "the root is another's");
    must(lists("/", ROOT), "the root holds something else");
    for (size_t i = 0; HIDDEN[i]; i++) must(lstat(HIDDEN[i], &found) == -1 && errno == ENOENT, HIDDEN[i]);
    must(lists("/dev", DEVICES) && lstat("/dev/null", &found) == 0 && S_ISCHR(found.st_mode), "other devices than null");
    must(major(found.st_rdev) == 1 && minor(found.st_rdev) == 3, "null is another device");
}

static void has_stubs_alone(const struct nest *nest) {
    struct stat found;
    struct statvfs system;
    for (size_t i = 0; SAME_STUB[i]; i++) {
        must(lstat(SAME_STUB[i], &found) == 0 && S_ISREG(found.st_mode), SAME_STUB[i]);
        must(found.st_ino == nest->stub, "a stub is none");
    }
    must(statvfs("/bin", &system) == 0 && system.f_flag & ST_RDONLY, "the programs can be changed");
    must(access("/bin", W_OK) == -1 && open("/bin/new", O_WRONLY | O_CREAT, 0600) == -1 && errno == EROFS,
         "the programs can be changed");
    must(open("/bin/rm", O_WRONLY) == -1, "the programs can be changed");
}

static void is_limited(void) {
    struct rlimit found;
    struct utsname name;
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++) {
        must(getrlimit(LIMITS[i].kind, &found) == 0, "a limit is missing");
        must(found.rlim_cur == LIMITS[i].most && found.rlim_max == LIMITS[i].most, "a limit is missing");
    }
    for (int one = 0; one < 64; one++) must(prctl(PR_CAPBSET_READ, one, 0, 0, 0) != 1, "it could gain capabilities");
    for (int fd = 0; fd < 4096; fd++) {
        int flags = fcntl(fd, F_GETFD);
        must(fd < 3 || fd == LOG ? flags == 0 : fd == REPORT ? flags == FD_CLOEXEC : flags == -1, "other descriptors");
    }
    must(getpid() == 2 && getppid() == 1 && getsid(0) == 2, "the process namespace is not new");
    must(only_loopback(false), "the network is not cut off");
    must(msgget(NEST_KEY, 0) == -1, "it sees the messages of others");
    must(uname(&name) == 0 && !strcmp(name.nodename, "oracle"), "its name is another");
}

/* Drop what is left, assert everything, become the shell. */
static void become_shell(const struct nest *nest, enum kind kind, const char *text, int log, struct note *note) {
    char *const environment[] = {"PATH=/bin", "HOME=/w", "LC_ALL=C.UTF-8", NULL};
    char *const words[KINDS][8] = {
        [BASH] = {"bash", "--norc", "--noprofile", "-c", (char *)text, NULL},
        [POSIX] = {"bash", "--norc", "--noprofile", "--posix", "-c", (char *)text, NULL},
        [DASH] = {"dash", "-c", (char *)text, NULL},
    };
    drop(log);
    no_rights();
    is_own_root(nest);
    has_stubs_alone(nest);
    is_limited();
    note->executed = 1;
    execve(kind == DASH ? "/bin/dash" : "/bin/bash", words[kind], environment);
    note->executed = 0;
    must(false, "the shell cannot be executed");
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Be the first process of the namespace: reap until nobody is left, or the time is over. */
static void watch(pid_t shell, const sigset_t *child_signal, struct note *note) {
    double end = now() + WALL;
    for (;;) {
        int status;
        pid_t gone;
        while ((gone = waitpid(-1, &status, WNOHANG)) > 0) {
            if (gone != shell) continue;
            note->ended = 1;
            note->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
            if (now() + GRACE < end) end = now() + GRACE;
        }
        double left = end - now();
        if (gone == -1 || left <= 0) return;
        struct timespec rest = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        sigtimedwait(child_signal, NULL, &rest);
    }
}

void run_text(const struct nest *nest, enum kind kind, const char *text, int log, struct note *note) {
    sigset_t child_signal;
    int status;
    make_root(nest, kind);
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    must(sigprocmask(SIG_BLOCK, &child_signal, NULL) == 0, "signals");
    pid_t first = fork();
    must(first >= 0, "no process");
    if (first == 0) {
        pid_t shell = fork();
        must(shell >= 0, "no process");
        if (shell == 0) become_shell(nest, kind, text, log, note);
        watch(shell, &child_signal, note);
        _exit(note->executed ? 0 : 99);
    }
    must(waitpid(first, &status, 0) == first && status == 0, "its first process ended otherwise");
}
