/* Runs shell texts where they can do nothing: what ran is noted by stubs.  Three layers, each of which asserts what it
   relies on and else ends with 99, before a text runs.

     outer   an account without rights, started by setpriv; asserts that, reads the files that the sandbox holds, and
             leaves every namespace of the machine
     nest    the first process there: its root is a tmpfs with the shells, their libraries and the stub.  Takes texts, as
             bytes on its standard input, and answers on its standard output
     text    for each text namespaces and a root of its own, see text.c

   Usage: sandbox NAME=PATH ...  with the files of /bin: bash, dash, stub, and what the loader needs.
   Request: u32 length, u32 kind, the text.  Answer: i32 whether it ended by itself, i32 status, u32 length, what stubs
   noted. */
#define _GNU_SOURCE
#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FILES 40
#define MAX_FILE (32 << 20)

static const char *const STUBS[] = {
    "prog0", "prog1", "prog2", "prog3", "prog4", "prog5", "prog6", "prog7", "prog8", "prog9", "prog10", "prog11", "prog12",
    "prog13", "prog14", "prog15", "prog16", "prog17", "prog18", "prog19", "rm", "git", "curl", "wget", "dd", "mkfs", "sudo",
    "env", "timeout", "nice", "nohup", "xargs", "find", "cat", "ls", "cp", "mv", "chmod", "chown", "shred", "tee", "grep",
    "sed", "awk", "python3", "python", "node", "npm", "npx", "make", "docker", "ssh", "tar", "head", "tail", "sort", "mkdir",
    "touch", "sleep", "setsid", "uv", "watch", "parallel", "flock", "stdbuf", "su", "doas", "busybox", "perl", "psql",
    "reboot", "truncate", "rsync", "pip", NULL,
};

#ifdef WEAKER
int left_out;
#endif

struct file {
    char name[64];
    void *data;
    size_t size;
};

static void stop(const char *kind, const char *what) {
    char line[300];
    const char *last = errno ? strerror(errno) : "no error of the kernel";
    int length = snprintf(line, sizeof line, "oracle: %s: %s (%s)\n", kind, what, last);
    if (length > 0 && write(fcntl(REPORT, F_GETFD) == -1 ? 2 : REPORT, line, (size_t)length) < 0) _exit(99);
    _exit(99);
}

void must(bool claim, const char *what) {
    if (!claim) stop("refused", what);
}

void given(bool claim, const char *what) {
    if (!claim) stop("this machine does not give", what);
}

/* Assert that this process is nobody, for the machine too, and has no capability. */
void no_rights(void) {
    uid_t user[3];
    gid_t group[3];
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    errno = 0;
    must(getresuid(&user[0], &user[1], &user[2]) == 0 && getresgid(&group[0], &group[1], &group[2]) == 0, "its ids");
    for (int i = 0; i < 3; i++) must(user[i] == NOBODY && group[i] == NOBODY, "it runs as somebody");
    must(getgroups(0, NULL) == 0, "it has groups");
    memset(sets, 0xff, sizeof sets);
    must(syscall(SYS_capget, &header, sets) == 0, "its capabilities cannot be read");
    for (int i = 0; i < 2; i++) {
        must(!sets[i].effective && !sets[i].permitted && !sets[i].inheritable, "it has capabilities");
    }
    must(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "it may gain rights by programs");
}

static size_t read_all(int fd, char *into, size_t size) {
    size_t found = 0;
    while (found < size) {
        ssize_t more = read(fd, into + found, size - found);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) break;
        found += (size_t)more;
    }
    return found;
}

static size_t read_path(const char *path, char *into, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd >= 0, path);
    size_t found = read_all(fd, into, size);
    close(fd);
    return found;
}

void write_file(const char *path, const void *data, size_t size, mode_t mode) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    must(fd >= 0, path);
    for (const char *at = data, *end = at + size; at < end;) {
        ssize_t gone = write(fd, at, (size_t)(end - at));
        must(gone > 0, path);
        at += gone;
    }
    must(fchmod(fd, mode) == 0 && close(fd) == 0, path);
}

static void map_to_itself(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    given(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0, path);
}

/* Assert that 65534 is a user of a whole machine or container: it is also what an account is shown as that has no number
   in its namespace, and a person can map themselves to it. */
static void a_real_nobody(const char *path) {
    char text[4096];
    unsigned long first, outside, count;
    text[read_path(path, text, sizeof text - 1)] = 0;
    must(sscanf(text, "%lu %lu %lu", &first, &outside, &count) == 3 && first == 0 && count > NOBODY, "65534 is somebody");
}

static void only_itself(const char *path) {
    char text[4096], more;
    unsigned long first, outside, count;
    text[read_path(path, text, sizeof text - 1)] = 0;
    must(sscanf(text, "%lu %lu %lu %c", &first, &outside, &count, &more) == 3, "the user namespace maps other users");
    must(first == NOBODY && outside == NOBODY && count == 1, "the user namespace maps other users");
}

/* Make a mounted folder the root, and let go of all that was mounted before. */
void enter(const char *root) {
    must(chdir(root) == 0 && mkdir("old", 0700) == 0, "no place for the old root");
    given(syscall(SYS_pivot_root, ".", "old") == 0, "pivot_root");
    must(chdir("/") == 0 && umount2("/old", MNT_DETACH) == 0 && rmdir("/old") == 0, "the old root stays");
}

/* Return whether a folder has these entries, and no other one. */
bool lists(const char *folder, const char *const *names) {
    DIR *open_folder = opendir(folder);
    struct dirent *entry;
    size_t found = 0, count = 0;
    if (!open_folder) return false;
    while (names[count]) count++;
    while ((entry = readdir(open_folder))) {
        size_t at = 0;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        while (at < count && strcmp(entry->d_name, names[at])) at++;
        if (at == count) break;
        found++;
    }
    closedir(open_folder);
    return !entry && found == count;
}

/* Return whether the network is the loopback alone.  That of the nest is up, so that no text has it. */
bool only_loopback(bool is_up) {
    struct if_nameindex *all = if_nameindex();
    struct ifreq lo = {.ifr_name = "lo"};
    bool is_so = all && all[0].if_index == 1 && !strcmp(all[0].if_name, "lo") && all[1].if_index == 0;
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (all) if_freenameindex(all);
    is_so = is_so && ioctl(any, SIOCGIFFLAGS, &lo) == 0 && !!(lo.ifr_flags & IFF_UP) == is_up;
    if (any >= 0) close(any);
    return is_so;
}

static void raise_loopback(void) {
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    given(any >= 0 && ioctl(any, SIOCSIFFLAGS, &lo) == 0 && close(any) == 0, "a network of its own");
}

static void fill(const char *folder, const char *sh, const struct file *files, size_t count) {
    char path[80];
    must(chdir(folder) == 0, folder);
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(folder, "/tmp/bin")) {
            write_file(files[i].name, files[i].data, files[i].size, 0555);
        } else { /* the same files by another name */
            snprintf(path, sizeof path, "/tmp/bin/%.63s", files[i].name);
            must(link(path, files[i].name) == 0, files[i].name);
        }
    }
    must(link(sh, "sh") == 0, "no sh");
    for (size_t i = 0; STUBS[i]; i++) {
        must(link(WITHOUT == NO_STUBS ? sh : "stub", STUBS[i]) == 0, STUBS[i]);
    }
    must(chdir("/") == 0, "/");
}

/* Build what every text sees, out of what was read while there was a disk. */
static void build(struct nest *nest, const struct file *files, size_t count) {
    static const char *const ENTRIES[] = {"bin", "next", "null", "posix", NULL};
    unsigned char mark[16];
    struct stat found;
    must(getpid() == 1, "the process namespace is not new");
    must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "it would outlive its caller");
    given(only_loopback(false), "a network namespace with lo alone");
    raise_loopback();
    must(only_loopback(true) && msgget(NEST_KEY, IPC_CREAT | 0600) >= 0, "its network and messages are not its own");
    given(sethostname("oracle", 6) == 0, "a name of its own");
    given(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mounts of its own");
    given(mount("oracle", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=24m,nr_inodes=600,mode=755") == 0, "a tmpfs");
    must(mkdir("/tmp/bin", 0755) == 0 && mkdir("/tmp/posix", 0755) == 0 && mkdir("/tmp/next", 0755) == 0, "its folders");
    fill("/tmp/bin", "dash", files, count);
    fill("/tmp/posix", "bash", files, count);
    write_file("/tmp/null", "", 0, 0666); /* a user namespace cannot make devices */
    given(mount("/dev/null", "/tmp/null", NULL, MS_BIND, NULL) == 0, "its /dev/null");
    enter("/tmp");
    must(lists("/", ENTRIES), "the nest sees more than it made");
    must(stat("/", &found) == 0 && found.st_dev != nest->outside, "the nest is not its tmpfs");
    nest->own = found.st_dev;
    must(stat("/bin/stub", &found) == 0, "no stub");
    nest->stub = found.st_ino;
    must(getrandom(mark, sizeof mark, 0) == sizeof mark, "no random mark");
    for (size_t i = 0; i < sizeof mark; i++) snprintf(nest->mark + 2 * i, 3, "%02x", mark[i]);
}

static void answer(const void *data, size_t size) {
    for (const char *at = data, *end = at + size; at < end;) {
        ssize_t gone = write(1, at, (size_t)(end - at));
        if (gone <= 0) _exit(0); /* nobody asks any more */
        at += gone;
    }
}

/* Run one text, and answer what came of it. */
static void serve(const struct nest *nest, enum kind kind, const char *text, struct note *note) {
    static char noted[MAX_LOG];
    int status, log = memfd_create("log", MFD_CLOEXEC);
    /* Appended, since no lock of the offset keeps two stubs apart that write to a memfd at once. */
    must(log >= 0 && fcntl(log, F_SETFL, O_APPEND) == 0, "no log");
    memset(note, 0, sizeof *note);
    pid_t child = fork();
    must(child >= 0, "no process for a text");
    if (child == 0) {
        run_text(nest, kind, text, log, note);
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0, "the sandbox of a text was refused");
    must(note->executed == 1, "the shell of a text was not executed");
    ssize_t size = pread(log, noted, sizeof noted, 0);
    must(size >= 0 && close(log) == 0, "the log cannot be read");
    int32_t head[3] = {note->ended, note->status, (int32_t)size};
    answer(head, sizeof head);
    answer(noted, (size_t)size);
}

static int take_texts(struct nest *nest, const struct file *files, size_t count) {
    static char text[MAX_TEXT + 1];
    uint32_t head[2];
    struct note *note = mmap(NULL, sizeof *note, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(note != MAP_FAILED, "no shared memory");
    build(nest, files, count);
    while (read_all(0, (char *)head, sizeof head) == sizeof head) {
        must(head[0] <= MAX_TEXT && head[1] < KINDS, "a request that is none");
        must(read_all(0, text, head[0]) == head[0], "half a text");
        text[head[0]] = 0;
        must(strlen(text) == head[0], "a text with a NUL, which no argument can have");
        serve(nest, (enum kind)head[1], text, note);
    }
    return 0;
}

int main(int argc, char **argv) {
    static struct file files[MAX_FILES];
    struct nest nest = {0};
    struct stat found;
    int status;
#ifdef WEAKER
    left_out = atoi(getenv("WITHOUT"));
#endif
    no_rights();
    a_real_nobody("/proc/self/uid_map");
    a_real_nobody("/proc/self/gid_map");
    must(argc > 1 && argc <= MAX_FILES, "it was not told what it holds");
    for (int i = 1; i < argc; i++) {
        char *path = strchr(argv[i], '=');
        must(path && (size_t)(path - argv[i]) < sizeof files[0].name, argv[i]);
        memcpy(files[i - 1].name, argv[i], (size_t)(path - argv[i]));
        must(stat(path + 1, &found) == 0 && found.st_size < MAX_FILE, path + 1);
        files[i - 1].data = malloc((size_t)found.st_size + 1);
        must(files[i - 1].data != NULL, "no memory");
        files[i - 1].size = read_path(path + 1, files[i - 1].data, (size_t)found.st_size);
    }
    must(stat("/", &found) == 0, "/");
    nest.outside = found.st_dev;
    given(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) == 0,
          "namespaces to a user without rights");
    map_to_itself("/proc/self/setgroups", "deny");
    map_to_itself("/proc/self/uid_map", "65534 65534 1");
    map_to_itself("/proc/self/gid_map", "65534 65534 1");
    only_itself("/proc/self/uid_map");
    only_itself("/proc/self/gid_map");
    pid_t child = fork();
    must(child >= 0, "no process");
    if (child == 0) _exit(take_texts(&nest, files, (size_t)argc - 1));
    must(waitpid(child, &status, 0) == child, "the nest is lost");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
