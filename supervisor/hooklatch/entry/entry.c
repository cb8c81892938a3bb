/* Hands one event of a host to the daemon, and gives the host the daemon's answer: the entry in C.
 *
 * Does what asking.py does, in the same order and byte for byte; tests/entry/ holds both to one table.  refusals.h,
 * which header.py makes of refusals.py, has the words, the forms of a refusal, and limits.
 *
 * Every wait is an ordinary blocking call.  One timer ends them all, and so does a signal that would end this process:
 * the handler answers the host and exits.  It uses no memory of the heap and only what signal-safety(7) lists.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "refusals.h"

extern char **environ;

enum { MAX_NAME = 100, MAX_DETAIL = 1000, MAX_POINTER = 4096, MAX_FOLDERS = 4, ROOT = 0 };
enum kind { GATE, CONTEXT, NOTIFY };
enum reader { MODEL, PERSON, RESULT, PROMPTER }; /* of a reason, in the order of `befores`; from 1 on in a form */

static const char result_head[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"exit_code\":";
static const char *const error_heads[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-",
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-",
};
static const char ping[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

struct bytes {
    char *at;
    size_t size, room;
};

/* The command line.  Set once, before any handler is installed. */
static struct {
    const char *host, *event, *runtime_dir;
    const char *config, *state_dir; /* of a daemon that is started */
    enum kind kind;
    long limit; /* milliseconds */
    bool starts;
    uid_t daemon_uid; /* whose daemon is taken beside the user's own and root's; root's where none is named */
} entry = {.host = "", .event = "", .daemon_uid = ROOT};

/* What building.py writes into the program for one installation: the interpreter, and the script by which it starts a
 * daemon.  Volatile, since a compiler that sees them empty would leave them out. */
static const volatile struct {
    char mark[sizeof MARK], python[MAX_PATH], starting[MAX_PATH];
} installed = {.mark = MARK};

static volatile sig_atomic_t is_leaving; /* the host is being answered: too late for a signal to change that */

/* -- answering the host ------------------------------------------------------------------------------------------ */

/* Return 0, or the errno of what could not be written. */
static int write_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t done = write(fd, data, size);
        if (done > 0) {
            data += done;
            size -= (size_t)done;
        } else if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            int flags = fcntl(fd, F_GETFL);
            if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0) return errno;
        } else if (done < 0 && errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* Text of bounded size, in memory of its own: what does not fit is left out. */
struct line {
    size_t size;
    char at[8192];
};

static void put_byte(struct line *line, char byte) {
    if (line->size < sizeof line->at) line->at[line->size++] = byte;
}

static void put(struct line *line, const char *text) {
    for (; *text != '\0'; text++) put_byte(line, *text);
}

static void put_detail(struct line *line, const char *detail, size_t size) {
    if (size == 0) return;
    put(line, ": ");
    for (size_t i = 0; i < size && i < MAX_DETAIL; i++) {
        unsigned char byte = (unsigned char)detail[i];
        put_byte(line, byte >= 32 && byte < 127 ? detail[i] : '?');
    }
}

static bool is_prompt(void) {
    for (size_t i = 0; i < COUNT(prompts); i++)
        if (strcmp(prompts[i], entry.event) == 0) return true;
    return false;
}

/* Put why there is no decision, as a reader is told it. */
static void put_reason(struct line *line, enum reader reader, enum why why, const char *detail, size_t size) {
    if (reader == PERSON && is_prompt()) reader = PROMPTER;
    put(line, befores[why][reader]);
    put_detail(line, detail, size);
    put(line, afters[why][reader]);
}

/* Write the rest of the answer, and exit; `fault` is why standard output could not be written, if it could not. */
static void end_with(int fault, int code, const char *err, size_t err_size) __attribute__((noreturn));
static void end_with(int fault, int code, const char *err, size_t err_size) {
    static struct line complaint;
    if (fault != 0) {
        /* Whatever the host has read is no document, so only the exit code can still speak. */
        err_size = 0;
        code = 0;
        if (entry.kind == GATE) {
            const char *why = strerror(fault);
            complaint.size = 0;
            put_reason(&complaint, MODEL, WHY_OUTPUT, why, strlen(why));
            put(&complaint, "\n");
            err = complaint.at;
            err_size = complaint.size;
            code = BLOCK;
        }
    }
    (void)write_all(STDERR_FILENO, err, err_size);
    _exit(code);
}

/* Write the answer, and exit: once, whatever happens meanwhile. */
static void leave(int code, const char *out, size_t out_size, const char *err, size_t err_size) __attribute__((noreturn));
static void leave(int code, const char *out, size_t out_size, const char *err, size_t err_size) {
    is_leaving = 1;
    end_with(write_all(STDOUT_FILENO, out, out_size), code, err, err_size);
}

/* Leave without a decision; a session that begins hears here that nobody `is_there`. */
static void leave_silent(bool is_there) __attribute__((noreturn));
static void leave_silent(bool is_there) {
    for (size_t i = 0; i < COUNT(notices) && !is_there; i++)
        if (strcmp(notices[i].host, entry.host) == 0 && strcmp(notices[i].event, entry.event) == 0)
            leave(0, notices[i].said, strlen(notices[i].said), "", 0);
    for (size_t i = 0; i < COUNT(silences); i++)
        if (strcmp(silences[i].host, entry.host) == 0) leave(0, silences[i].said, strlen(silences[i].said), "", 0);
    leave(0, "", 0, "", 0);
}

/* A result in the shape that the document has, with a byte for the reason; complete where its form is set. */
static struct bytes shape;
static volatile sig_atomic_t shaped_by = -1; /* the index of a form in `results` */

/* Write the result in its shape with the reason in it; return 0, or the errno of what could not be written. */
static int write_shaped(const struct line *reason) {
    int fault = write_all(STDOUT_FILENO, results[shaped_by].before, strlen(results[shaped_by].before));
    for (size_t at = 0, size; at < shape.size && fault == 0; at += size) {
        const char *mark = memchr(shape.at + at, REASON, shape.size - at);
        size = mark == NULL ? shape.size - at : (size_t)(mark - (shape.at + at));
        fault = write_all(STDOUT_FILENO, shape.at + at, size);
        if (mark == NULL || fault != 0) continue;
        fault = write_all(STDOUT_FILENO, reason->at, reason->size);
        size++;
    }
    return fault != 0 ? fault : write_all(STDOUT_FILENO, results[shaped_by].after, strlen(results[shaped_by].after));
}

static void put_quoted(struct line *line, const struct line *reason) {
    for (size_t k = 0; k < reason->size; k++) { /* printable ASCII: only these two need an escape */
        if (reason->at[k] == '"' || reason->at[k] == '\\') put_byte(line, '\\');
        put_byte(line, reason->at[k]);
    }
}

/* Answer the host without a decision: only a gate is refused. */
static void fail_with(enum why why, const char *detail, size_t size) __attribute__((noreturn));
static void fail_with(enum why why, const char *detail, size_t size) {
    static struct line reason, said;
    is_leaving = 1;
    bool is_there = true;
    for (size_t i = 0; i < COUNT(unreached); i++) is_there &= unreached[i] != why;
    if (entry.kind != GATE) leave_silent(is_there || (entry.kind == NOTIFY && entry.starts)); /* by the first gate */
    if (shaped_by >= 0) {
        put_reason(&reason, RESULT, why, detail, size);
        put_quoted(&said, &reason);
        end_with(write_shaped(&said), 0, "", 0);
    }
    for (size_t i = 0; i < COUNT(forms); i++) {
        if (strcmp(forms[i].host, entry.host) != 0 || strcmp(forms[i].event, entry.event) != 0) continue;
        for (const char *at = forms[i].form; *at != '\0'; at++) {
            if (*at > RESULT + 1) {
                put_byte(&said, *at);
                continue;
            }
            reason.size = 0;
            put_reason(&reason, (enum reader)(*at - 1), why, detail, size);
            put_quoted(&said, &reason);
        }
        leave(0, said.at, said.size, "", 0);
    }
    put_reason(&reason, is_prompt() ? PERSON : MODEL, why, detail, size);
    put(&reason, "\n");
    leave(BLOCK, "", 0, reason.at, reason.size);
}

static void fail(enum why why) __attribute__((noreturn));
static void fail(enum why why) { fail_with(why, "", 0); }

static void fail_text(enum why why, const char *detail) __attribute__((noreturn));
static void fail_text(enum why why, const char *detail) { fail_with(why, detail, strlen(detail)); }

static void on_signal(int number) {
    if (!is_leaving) fail(number == SIGALRM ? WHY_LATE : WHY_ENDED);
}

/* -- bytes ------------------------------------------------------------------------------------------------------- */

static void make_room(struct bytes *bytes, size_t more) {
    if (bytes->room - bytes->size >= more) return;
    size_t room = bytes->room * 2 > bytes->size + more ? bytes->room * 2 : bytes->size + more;
    char *at = realloc(bytes->at, room);
    if (at == NULL) fail_text(WHY_BUG, "out of memory");
    bytes->at = at;
    bytes->room = room;
}

static void add(struct bytes *bytes, const char *data, size_t size) {
    if (size == 0) return;
    make_room(bytes, size);
    memcpy(bytes->at + bytes->size, data, size);
    bytes->size += size;
}

static void add_text(struct bytes *bytes, const char *text) { add(bytes, text, strlen(text)); }

static void add_end(struct bytes *bytes) {
    make_room(bytes, 1);
    bytes->at[bytes->size] = '\0';
}

/* Append UTF-8 text as the inside of a JSON string. */
static void add_quoted(struct bytes *bytes, const char *data, size_t size) {
    static const char digits[] = "0123456789abcdef";
    make_room(bytes, size + 2);
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)data[i];
        char escape[6] = {'\\', data[i], '0', '0', digits[byte >> 4], digits[byte & 15]};
        size_t length = 2;
        switch (byte) {
            case '"':
            case '\\': break;
            case '\n': escape[1] = 'n'; break;
            case '\r': escape[1] = 'r'; break;
            case '\t': escape[1] = 't'; break;
            default:
                if (byte >= 32) {
                    add(bytes, data + i, 1);
                    continue;
                }
                escape[1] = 'u';
                length = 6;
        }
        add(bytes, escape, length);
    }
}

static bool is_utf8(const char *data, size_t size) {
    if (size == 0) return true;
    const unsigned char *at = (const unsigned char *)data, *end = at + size;
    while (at < end) {
        unsigned char first = *at++;
        if (first < 0x80) continue;
        int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        unsigned char least = 0x80, most = 0xbf; /* of the second byte: RFC 3629, section 4 */
        if (first < 0xc2 || first > 0xf4) return false;
        if (first == 0xe0) least = 0xa0;
        if (first == 0xed) most = 0x9f;
        if (first == 0xf0) least = 0x90;
        if (first == 0xf4) most = 0x8f;
        for (; more > 0; more--, at++, least = 0x80, most = 0xbf)
            if (at == end || *at < least || *at > most) return false;
    }
    return true;
}

/* -- a result in its own shape: as withholding.py does it ---------------------------------------------------------- */

static bool is_space(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

static const char *skip_spaces(const char *at, const char *end) {
    while (at < end && is_space(*at)) at++;
    return at;
}

/* Return where the string that begins here ends, or NULL: at its last quotation mark. */
static const char *end_of_string(const char *at, const char *end) {
    if (at == end || *at != '"') return NULL;
    for (at++; at < end && (unsigned char)*at >= 32; at++) {
        if (*at == '"') return at;
        if (*at == '\\' && ++at == end) return NULL;
    }
    return NULL;
}

static bool is_kept(const char *key, size_t key_size, const char *value, size_t size) {
    bool is_telling = false;
    for (size_t i = 0; i < COUNT(telling); i++)
        is_telling |= strlen(telling[i]) == key_size && memcmp(telling[i], key, key_size) == 0;
    for (size_t i = 0; i < size && is_telling; i++) is_telling = value[i] == '_' || (value[i] >= 'a' && value[i] <= 'z');
    return size == 0 || (is_telling && size <= MAX_WORD);
}

/* Append a value without what it says, to nothing if `out` is NULL; return where it ends, or NULL if that is unknown. */
static const char *add_blank(struct bytes *out, const char *at, const char *end, const char *key, size_t key_size,
                             int depth) {
    static const char literal[] = "+-.0123456789Eaeflnrstu";
    at = skip_spaces(at, end);
    if (at == end || depth > MAX_DEPTH) return NULL;
    const char *last = end_of_string(at, end);
    if (last != NULL) {
        size_t size = (size_t)(last - at) - 1;
        if (out != NULL && is_kept(key, key_size, at + 1, size)) add(out, at, size + 2);
        else if (out != NULL) add_text(out, TEXT_SHAPE);
        return last + 1;
    }
    if (*at != '{' && *at != '[') {
        const char *begin = at;
        while (at < end && memchr(literal, *at, sizeof literal - 1) != NULL) at++;
        if (at == begin) return NULL;
        bool is_number = *begin == '-' || (*begin >= '0' && *begin <= '9');
        if (out != NULL) add(out, is_number ? "0" : begin, is_number ? 1 : (size_t)(at - begin));
        return at;
    }
    bool is_list = *at == '[';
    const char *ends = is_list ? "]" : "}";
    if (out != NULL) add(out, at, 1);
    at = skip_spaces(at + 1, end);
    for (bool is_first = true; at < end && *at != *ends; is_first = false) {
        struct bytes *into = is_list && !is_first ? NULL : out;
        const char *name = "";
        size_t size = 0;
        if (!is_first && *at++ != ',') return NULL;
        if (!is_first && into != NULL) add_text(into, ",");
        if (!is_list) {
            at = skip_spaces(at, end);
            if ((last = end_of_string(at, end)) == NULL) return NULL;
            name = at + 1;
            size = (size_t)(last - name);
            if (into != NULL) add(into, at, size + 2);
            at = skip_spaces(last + 1, end);
            if (at == end || *at++ != ':') return NULL;
            if (into != NULL) add_text(into, ":");
        }
        at = add_blank(into, at, end, name, size, depth + 1);
        if (at == NULL) return NULL;
        at = skip_spaces(at, end);
    }
    if (at == end) return NULL;
    if (out != NULL) add_text(out, ends);
    return at + 1;
}

/* Return where a member of an object begins, or NULL: there is none, or it cannot be read. */
static const char *member_of(const char *at, const char *end, const char *name) {
    at = skip_spaces(at, end);
    if (at == end || *at != '{') return NULL;
    do {
        at = skip_spaces(at + 1, end);
        const char *last = end_of_string(at, end);
        if (last == NULL) return NULL;
        bool is_it = (size_t)(last - at) - 1 == strlen(name) && memcmp(at + 1, name, strlen(name)) == 0;
        at = skip_spaces(last + 1, end);
        if (at == end || *at != ':') return NULL;
        at = skip_spaces(at + 1, end);
        if (is_it) return at < end ? at : NULL;
        at = add_blank(NULL, at, end, "", 0, 0);
        if (at == NULL) return NULL;
        at = skip_spaces(at, end);
    } while (at < end && *at == ',');
    return NULL;
}

/* Prepare, before anybody is asked, what the model reads in place of a result: a signal has no time for it. */
static void prepare_shape(const struct bytes *document) {
    const char *end = document->at + document->size;
    for (size_t i = 0; i < COUNT(results) && entry.kind == GATE && document->size > 0; i++) {
        if (strcmp(results[i].host, entry.host) != 0 || strcmp(results[i].event, entry.event) != 0) continue;
        const char *result = member_of(document->at, end, "tool_response");
        const char *last = result == NULL ? NULL : add_blank(NULL, document->at, end, "", 0, 0);
        if (last == NULL || skip_spaces(last, end) != end) return;
        const char *fixed = *result == '"'                               ? TEXT_SHAPE
                            : *result == '['                             ? LIST_SHAPE
                            : member_of(result, end, "stdout") != NULL ? SHELL_SHAPE
                            : member_of(result, end, "file") != NULL   ? FILE_SHAPE
                                                                       : NULL;
        if (fixed != NULL) add_text(&shape, fixed);
        else if (add_blank(&shape, result, end, "", 0, 0) == NULL) return;
        shaped_by = (sig_atomic_t)i;
    }
}

/* -- the command line -------------------------------------------------------------------------------------------- */

static bool is_name(const char *word) {
    size_t size = strlen(word);
    return size > 0 && size <= MAX_NAME &&
           strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-") == size;
}

/* Return 0 for what is no number of seconds. */
static long milliseconds(const char *seconds) {
    size_t whole = strspn(seconds, "0123456789");
    if (whole == 0 || whole > 6) return 0;
    long value = 0;
    for (size_t i = 0; i < whole; i++) value = value * 10 + (seconds[i] - '0');
    value *= 1000;
    if (seconds[whole] == '\0') return value;
    const char *part = seconds + whole + 1;
    size_t size = strspn(part, "0123456789");
    if (seconds[whole] != '.' || size == 0 || size > 3 || part[size] != '\0') return 0;
    long unit = 100;
    for (size_t i = 0; i < size; i++, unit /= 10) value += (part[i] - '0') * unit;
    return value;
}

/* Store the number of a user; return whether it is one.  The highest is the kernel's for nobody at all. */
static bool read_uid(const char *digits, uid_t *uid) {
    size_t size = strspn(digits, "0123456789");
    unsigned long long value = size > 0 && size <= 10 ? strtoull(digits, NULL, 10) : UINT32_MAX;
    if (digits[size] != '\0' || value >= UINT32_MAX) return false;
    *uid = (uid_t)value;
    return true;
}

static void add_problem(struct bytes *problem, const char *word, const char *text) {
    if (problem->size > 0) return;
    add_text(problem, word);
    add_text(problem, text);
}

/* Fill in `entry`; append to `problem` what is wrong with the command line, if anything. */
static void read_words(int count, char **given, struct bytes *problem) {
    int names = 0;
    const char *waits = "";
    for (int i = 1; i < count; i++) {
        const char *word = given[i];
        bool is_kind = strcmp(word, "--kind") == 0, is_wait = strcmp(word, "--wait") == 0;
        const char **place = strcmp(word, "--runtime-dir") == 0 ? &entry.runtime_dir
                             : strcmp(word, "--config") == 0    ? &entry.config
                             : strcmp(word, "--state-dir") == 0 ? &entry.state_dir
                                                                : NULL;
        bool is_uid = strcmp(word, "--daemon-uid") == 0;
        if (strcmp(word, "--start") == 0) {
            entry.starts = true;
        } else if (is_kind || is_wait || is_uid || place != NULL) {
            const char *value = i + 1 < count ? given[++i] : "";
            if (*value == '\0') {
                add_problem(problem, word, " needs a value");
            } else if (is_uid) {
                if (!read_uid(value, &entry.daemon_uid)) add_problem(problem, word, " needs the number of a user");
            } else if (is_kind) {
                entry.kind = strcmp(value, "context") == 0 ? CONTEXT : strcmp(value, "notify") == 0 ? NOTIFY : GATE;
            } else if (is_wait) {
                waits = value;
            } else {
                *place = value;
            }
        } else if (*word == '-' || names == 2 || !is_name(word)) {
            add_problem(problem, "unexpected: ", word);
        } else if (names++ == 0) {
            entry.host = word;
        } else {
            entry.event = word;
        }
    }
    entry.limit = entry.kind == NOTIFY ? HANDOVER : milliseconds(waits);
    if (problem->size == 0 && names < 2)
        add_text(problem, "expected HOST EVENT --kind gate|context|notify --wait SECONDS");
    if (problem->size == 0 && entry.limit == 0) add_text(problem, "--wait needs seconds, up to 999999.999");
}

/* -- the host's side --------------------------------------------------------------------------------------------- */

/* Return the document; read it whole even if it is too large, since a host may take a closed pipe for a failure. */
static struct bytes read_input(void) {
    struct bytes document = {0};
    static char chunk[CHUNK];
    size_t size = 0;
    if (isatty(STDIN_FILENO)) fail(WHY_TERMINAL);
    for (;;) {
        ssize_t got = read(STDIN_FILENO, chunk, sizeof chunk);
        if (got == 0) break;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            int flags = fcntl(STDIN_FILENO, F_GETFL);
            if (flags < 0 || fcntl(STDIN_FILENO, F_SETFL, flags & ~O_NONBLOCK) < 0) fail_text(WHY_UNREAD, strerror(errno));
            continue;
        }
        if (got < 0) fail_text(WHY_UNREAD, strerror(errno));
        size += (size_t)got;
        if (size <= MAX_FRAME) add(&document, chunk, (size_t)got);
    }
    if (size > MAX_FRAME) {
        char text[40];
        (void)snprintf(text, sizeof text, "%zu bytes", size);
        fail_text(WHY_HUGE, text);
    }
    struct stat status;
    /* Takes the place of the closed standard error, which a socket would take otherwise. */
    if (fstat(STDERR_FILENO, &status) < 0 && open("/dev/null", O_RDWR) < 0) fail(WHY_BUG);
    if (!is_utf8(document.at, document.size)) fail(WHY_ENCODING);
    return document;
}

/* -- what differs by system -------------------------------------------------------------------------------------- */

#ifdef __APPLE__

/* Return what the user database says of a user, or NULL; /etc/passwd has only the system's own users here. */
static const struct passwd *user_of(uid_t uid) { return getpwuid(uid); }

/* Store the user who listens at the other end; return whether the kernel says it (LOCAL_PEERCRED of unix(4)). */
static bool read_peer(int fd, uid_t *uid) {
    gid_t gid;
    return getpeereid(fd, uid, &gid) == 0;
}

#else

/* Return what the user database says of a user, or NULL. */
static const struct passwd *user_of(uid_t uid) {
    FILE *users = fopen("/etc/passwd", "re"); /* not getpwuid: a static program cannot load what it needs */
    if (users == NULL) return NULL;
    struct passwd *user;
    while ((user = fgetpwent(users)) != NULL && user->pw_uid != uid) continue;
    (void)fclose(users);
    return user; /* in memory of the library's, until the next call */
}

/* Store the user who listens at the other end; return whether the kernel says it (SO_PEERCRED of unix(7)). */
static bool read_peer(int fd, uid_t *uid) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return false;
    *uid = peer.uid;
    return true;
}

#endif

/* -- where the daemon is ----------------------------------------------------------------------------------------- */

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

/* Return "folder/name", whatever number of slashes the folder ends with. */
static char *joined(const char *folder, const char *name) {
    struct bytes path = {0};
    size_t size = strlen(folder);
    while (size > 0 && folder[size - 1] == '/') size--;
    add(&path, folder, size);
    add_text(&path, "/");
    add_text(&path, name);
    add_end(&path);
    return path.at;
}

static const char *home_folder(void) {
    const char *home = variable("HOME");
    if (*home == '/') return home;
    const struct passwd *user = user_of(getuid());
    char *copy = user != NULL ? strdup(user->pw_dir) : NULL;
    return copy != NULL ? copy : "";
}

static bool is_private_directory(const char *path) {
    struct stat status;
    return *path == '/' && stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == getuid() &&
           (status.st_mode & 0777) == 0700;
}

/* Return how many directories may hold the socket: those of paths.runtime_dirs. */
static size_t runtime_dirs(const char *folders[MAX_FOLDERS]) {
    size_t count = 0;
    const char *named = entry.runtime_dir != NULL ? entry.runtime_dir : variable("HOOKLATCH_RUNTIME_DIR");
    if (*named != '\0') {
        folders[count++] = named;
        return count;
    }
    const char *session = variable("XDG_RUNTIME_DIR"), *home = home_folder();
    if (is_private_directory(session)) folders[count++] = joined(session, "hooklatch");
    if (*home != '\0') folders[count++] = joined(home, ".local/state/hooklatch/run");
    return count;
}

/* Return the directory that the daemon's pointer names, or "": paths.pointed_dir. */
static const char *pointed_dir(void) {
    static char line[MAX_POINTER + 2];
    if (entry.runtime_dir != NULL || *variable("HOOKLATCH_RUNTIME_DIR") != '\0') return "";
    const char *state = variable("XDG_STATE_HOME");
    if (*state != '/') state = joined(home_folder(), ".local/state");
    char *path = joined(joined(state, "hooklatch"), POINTER);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return "";
    struct stat status;
    bool is_own = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == getuid() &&
                  (status.st_mode & 077) == 0 && status.st_nlink == 1;
    ssize_t size = is_own ? read(fd, line, MAX_POINTER + 1) : -1;
    (void)close(fd);
    if (size < 2 || size > MAX_POINTER || line[0] != '/') return "";
    if (memchr(line, '\n', (size_t)size) != line + size - 1 || memchr(line, '\0', (size_t)size) != NULL) return "";
    line[size - 1] = '\0';
    return line;
}

/* -- the daemon's side ------------------------------------------------------------------------------------------- */

static int new_socket(void) {
    const struct timeval limit = {.tv_sec = SILENCE};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    /* Not SOCK_CLOEXEC, which macOS lacks: nothing else in this process could start a program in between. */
    if (fd < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0)
        fail_text(WHY_BUG, strerror(errno));
    return fd;
}

/* Connect to where this user, root or the user that was named listens.  Return whether that is done.
 * The only connect here, as credentials.connect is in Python: nothing is sent before the kernel has said who listens. */
static bool connect_to(int fd, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return false; /* 108 bytes on Linux, 104 on macOS */
    memcpy(address.sun_path, path, strlen(path) + 1);
    while (connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EISCONN)
        if (errno != EINTR) return false;
    uid_t peer;
    return read_peer(fd, &peer) && (peer == ROOT || peer == geteuid() || peer == entry.daemon_uid);
}

/* Return a socket that is connected, or -1. */
static int attempt(const char *folder, char **path) {
    *path = joined(folder, AGENT_SOCKET);
    int fd = new_socket();
    if (connect_to(fd, *path)) return fd;
    (void)close(fd);
    return -1;
}

static int try_folders(char **path) {
    const char *folders[MAX_FOLDERS];
    size_t count = runtime_dirs(folders);
    for (size_t i = 0; i < count; i++) {
        int fd = attempt(folders[i], path);
        if (fd >= 0) return fd;
    }
    const char *pointed = pointed_dir();
    for (size_t i = 0; i < count; i++)
        if (strcmp(pointed, folders[i]) == 0) return -1;
    return *pointed != '\0' ? attempt(pointed, path) : -1;
}

static bool is_handed(const char *pair) {
    for (size_t i = 0; i < COUNT(handed); i++) {
        size_t size = strlen(handed[i]);
        if (strncmp(pair, handed[i], size) == 0 && pair[size] == '=') return true;
    }
    for (size_t i = 0; i < COUNT(handed_prefixes); i++)
        if (strncmp(pair, handed_prefixes[i], strlen(handed_prefixes[i])) == 0) return true;
    return false;
}

/* Return what starting.py gets of the environment. */
static char **handed_on(void) {
    size_t count = 0, kept = 0;
    while (environ[count] != NULL) count++;
    char **found = calloc(count + 1, sizeof *found);
    if (found == NULL) fail_text(WHY_BUG, "out of memory");
    for (size_t i = 0; i < count; i++)
        if (is_handed(environ[i])) found[kept++] = environ[i];
    return found;
}

/* Have the daemon started, and wait until that is done; return whether it was.  starting.py sees to it once. */
static bool has_started(void) {
    char *python = (char *)installed.python, *starting = (char *)installed.starting;
    char seconds[40], *given[12] = {python, "-I", starting, "--wait", seconds};
    const char *const places[][2] = {
        {"--runtime-dir", entry.runtime_dir}, {"--config", entry.config}, {"--state-dir", entry.state_dir}};
    size_t count = 5;
    (void)snprintf(seconds, sizeof seconds, "%ld.%03ld", entry.limit / 1000, entry.limit % 1000);
    for (size_t i = 0; i < COUNT(places); i++) {
        if (places[i][1] == NULL) continue;
        given[count++] = (char *)places[i][0];
        given[count++] = (char *)places[i][1];
    }
    if (installed.python[0] != '/') return false; /* nobody has written them */
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&actions) != 0 || posix_spawnattr_init(&attributes) != 0) return false;
    for (int fd = 0; fd < 3; fd++)
        if (posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0) != 0) return false;
    if (posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID) != 0) return false;
    pid_t pid;
    if (posix_spawn(&pid, python, &actions, &attributes, given, handed_on()) != 0) return false;
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return false;
    return status == 0;
}

/* Return a connection to the daemon; start it if nobody listens and that is wanted. */
static int connected(char **path) {
    int fd = try_folders(path);
    if (fd < 0 && entry.starts && entry.kind != NOTIFY) {
        if (!has_started()) fail(WHY_NOT_STARTED);
        fd = try_folders(path);
    }
    if (fd < 0) fail(WHY_NO_DAEMON);
    return fd;
}

/* Return if the daemon reacts to a new connection at all, by an answer, an error or a hang-up. */
static void check_alive(const char *path) {
    int fd = new_socket();
    char byte;
    if (!connect_to(fd, path)) fail(WHY_SILENT);
    while (send(fd, ping, sizeof ping - 1, 0) < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) fail(WHY_SILENT);
        if (errno != EINTR) goto reacted; /* it reset the connection */
    }
    while (recv(fd, &byte, 1, 0) < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) fail(WHY_SILENT);
        if (errno != EINTR) goto reacted;
    }
reacted:
    (void)close(fd);
}

static void send_all(int fd, const char *path, const struct bytes *line) {
    size_t sent = 0;
    while (sent < line->size) {
        ssize_t done = send(fd, line->at + sent, line->size - sent, 0);
        if (done >= 0)
            sent += (size_t)done;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            check_alive(path);
        else if (errno != EINTR)
            return; /* the daemon hung up, perhaps after sending an error: reading the answer will tell */
    }
}

static struct bytes receive_line(int fd, const char *path) {
    struct bytes received = {0};
    for (;;) {
        if (received.size > MAX_FRAME) fail(WHY_LONG);
        make_room(&received, CHUNK);
        ssize_t got = recv(fd, received.at + received.size, CHUNK, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            check_alive(path);
            continue;
        }
        if (got <= 0) fail(WHY_HUNG_UP);
        char *end = memchr(received.at + received.size, '\n', (size_t)got);
        received.size += (size_t)got;
        if (end == NULL) continue;
        received.size = (size_t)(end - received.at);
        if (received.size > MAX_FRAME) fail(WHY_LONG);
        return received;
    }
}

static void add_environment(struct bytes *line) {
    bool is_first = true;
    for (size_t i = 0; i < COUNT(variables); i++) {
        const char *value = getenv(variables[i]);
        if (value == NULL) continue;
        if (!is_utf8(value, strlen(value))) fail_text(WHY_VARIABLE, variables[i]);
        add_text(line, is_first ? "\"" : ",\"");
        add_text(line, variables[i]);
        add_text(line, "\":\"");
        add_quoted(line, value, strlen(value));
        add_text(line, "\"");
        is_first = false;
    }
}

static long milliseconds_since(const struct timespec *begin) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) < 0) return 0;
    return (long)(now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000;
}

static struct bytes ask(const struct bytes *document, const struct timespec *begin) {
    struct bytes line = {0};
    char *path, text[60];
    add_text(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"host\",\"params\":{\"host\":\"");
    add_text(&line, entry.host);
    add_text(&line, "\",\"event\":\"");
    add_text(&line, entry.event);
    add_text(&line, "\",\"environ\":{");
    add_environment(&line);
    int fd = connected(&path);
    long remaining = entry.limit - milliseconds_since(begin);
    if (remaining < 1) remaining = 1;
    (void)snprintf(text, sizeof text, "},\"budget\":%ld.%03ld,\"document\":", remaining / 1000, remaining % 1000);
    add_text(&line, text);
    size_t start = line.size;
    add(&line, document->at, document->size);
    /* A line end would end our line.  In JSON a carriage return is as much of a space, and as little part of a string. */
    for (size_t i = start; i < line.size; i++)
        if (line.at[i] == '\n') line.at[i] = '\r';
    add_text(&line, "}}\n");
    if (line.size - 1 > MAX_FRAME) {
        (void)snprintf(text, sizeof text, "%zu bytes", line.size - 1);
        fail_text(WHY_HUGE, text);
    }
    send_all(fd, path, &line);
    return receive_line(fd, path);
}

/* -- the answer -------------------------------------------------------------------------------------------------- */

static bool begins(const char *at, const char *end, const char *text) {
    return (size_t)(end - at) >= strlen(text) && memcmp(at, text, strlen(text)) == 0;
}

/* Return the number that four hexadecimal digits are, or -1. */
static long hexadecimal(const char *at, const char *end) {
    long value = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char digit = at[i];
        int number = digit >= '0' && digit <= '9' ? digit - '0'
                     : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                     : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                    : -1;
        if (number < 0) return -1;
        value = value * 16 + number;
    }
    return value;
}

static void add_character(struct bytes *bytes, unsigned long code) {
    char all[4] = {(char)(0xf0 | code >> 18), (char)(0x80 | (code >> 12 & 63)), (char)(0x80 | (code >> 6 & 63)),
                   (char)(0x80 | (code & 63))};
    if (code < 0x80) {
        char one = (char)code;
        add(bytes, &one, 1);
    } else if (code < 0x800) {
        all[2] = (char)(0xc0 | code >> 6);
        add(bytes, all + 2, 2);
    } else if (code < 0x10000) {
        all[1] = (char)(0xe0 | code >> 12);
        add(bytes, all + 1, 3);
    } else {
        add(bytes, all, 4);
    }
}

/* Append the JSON string that follows `key`, and return where it ends; the whole line is UTF-8 already.
 *
 * Half a surrogate pair is no text: it fails, or becomes a question mark if it `is_shown` to a person only. */
static const char *string_after(const char *at, const char *end, const char *key, struct bytes *value, bool is_shown) {
    if (!begins(at, end, key)) fail(WHY_RUBBISH);
    for (at += strlen(key); at < end && *at != '"'; at++) {
        if ((unsigned char)*at < 32) fail(WHY_RUBBISH);
        if (*at != '\\') {
            add(value, at, 1);
            continue;
        }
        if (++at == end) fail(WHY_RUBBISH);
        const char *escapes = "\"\\/bfnrt", *meant = "\"\\/\b\f\n\r\t";
        const char *found = memchr(escapes, *at, strlen(escapes));
        if (found != NULL) {
            add(value, meant + (found - escapes), 1);
            continue;
        }
        long code = *at == 'u' ? hexadecimal(at + 1, end) : -1;
        if (code < 0) fail(WHY_RUBBISH);
        at += 4;
        if (code >= 0xd800 && code < 0xdc00 && end - at > 6 && at[1] == '\\' && at[2] == 'u') {
            long low = hexadecimal(at + 3, end);
            if (low >= 0xdc00 && low < 0xe000) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                at += 6;
            }
        }
        if (code >= 0xd800 && code < 0xe000) {
            if (!is_shown) fail(WHY_RUBBISH);
            code = '?';
        }
        add_character(value, (unsigned long)code);
    }
    if (at == end) fail(WHY_RUBBISH);
    return at + 1;
}

/* Give the host what the daemon answered.  It is taken only in the one form that the daemon writes. */
static void pass_on(const struct bytes *line) __attribute__((noreturn));
static void pass_on(const struct bytes *line) {
    const char *at = line->at, *end = line->at + line->size;
    struct bytes out = {0}, err = {0};
    if (!is_utf8(line->at, line->size)) fail(WHY_RUBBISH);
    for (size_t i = 0; i < COUNT(error_heads); i++) {
        if (!begins(at, end, error_heads[i])) continue;
        const char *key = ",\"message\":\"", *found = memmem(at, line->size, key, strlen(key));
        if (found != NULL) (void)string_after(found, end, key, &out, true);
        fail_with(WHY_ERROR, out.at, out.size);
    }
    if (!begins(at, end, result_head)) fail(WHY_RUBBISH);
    at += sizeof result_head - 1;
    if (at == end || (*at != '0' && *at != '2')) fail(WHY_RUBBISH);
    int code = *at - '0';
    at = string_after(at + 1, end, ",\"stdout\":\"", &out, false);
    at = string_after(at, end, ",\"stderr\":\"", &err, false);
    if (end - at != 2 || memcmp(at, "}}", 2) != 0) fail(WHY_RUBBISH);
    size_t size = out.size, text = 0;
    while (size > 0 && is_space(out.at[size - 1])) size--;
    if (size > 0 && (out.at[0] != '{' || out.at[size - 1] != '}')) fail(WHY_RUBBISH);
    if (code == BLOCK && entry.kind == GATE) {
        /* Where a refusal comes with a document, or without a text, some hosts go on. */
        bool is_documented = false;
        for (size_t i = 0; i < COUNT(documented); i++) is_documented |= strcmp(documented[i], entry.host) == 0;
        if (!is_documented) out.size = 0;
        while (text < err.size && is_space(err.at[text])) text++;
        if (text == err.size) leave(code, out.at, out.size, REFUSED, strlen(REFUSED));
    }
    leave(code, out.at, out.size, err.at, err.size);
}

int main(int count, char **given) {
    struct bytes problem = {0};
    struct timespec begin = {0};
    struct stat status;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    (void)signal(SIGPIPE, SIG_IGN);
    read_words(count, given, &problem);
    if (problem.size > 0) fail_with(WHY_USAGE, problem.at, problem.size);
    const int endings[] = {SIGALRM, SIGTERM, SIGHUP, SIGINT, SIGQUIT};
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigfillset(&action.sa_mask); /* one handler at a time */
    for (size_t i = 0; i < COUNT(endings); i++)
        if (sigaction(endings[i], &action, NULL) < 0) fail_text(WHY_BUG, strerror(errno));
    /* Repeated: the first one may come just before a call begins to block. */
    const struct itimerval limit = {.it_interval = {.tv_usec = 50000},
                                    .it_value = {.tv_sec = entry.limit / 1000, .tv_usec = entry.limit % 1000 * 1000}};
    if (setitimer(ITIMER_REAL, &limit, NULL) < 0) fail_text(WHY_BUG, strerror(errno));
    /* Refuse a closed standard output now: the next descriptor that is opened would take its place. */
    if (fstat(STDOUT_FILENO, &status) < 0) fail_text(WHY_OUTPUT, strerror(errno));
    struct bytes document = read_input();
    prepare_shape(&document);
    struct bytes line = ask(&document, &begin);
    if (entry.kind == NOTIFY) leave_silent(true);
    pass_on(&line);
}
