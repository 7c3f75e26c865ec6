/*
 * alarm.c: hands a mail to Fieldpost over a raw socket, for programs without an HTTP library.
 *
 *     cc -Wall -o alarm alarm.c && ./alarm john@example.com "Pump 3" "The pressure is low"
 *
 * It prints the answer. Exit status: 0 for 202 (the mail is on the disk), 75 if it may work later, else 1.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { LATER = 75, BODY_MAX = 16384, ANSWER_MAX = 16384 };

/* Writes text as a JSON string at the end of `to`. Returns 0 if there is no room. The text must be UTF-8. */
static int add_string(char *to, size_t size, const char *text)
{
    size_t at = strlen(to);
    if (at + 2 >= size) return 0;
    to[at++] = '"';
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (at + 8 >= size) return 0;
        if (c == '"' || c == '\\') at += (size_t)sprintf(to + at, "\\%c", c);
        else if (c < 32) at += (size_t)sprintf(to + at, "\\u%04x", c);
        else to[at++] = (char)c;
    }
    to[at++] = '"';
    to[at] = 0;
    return 1;
}

static int add(char *to, size_t size, const char *text)
{
    if (strlen(to) + strlen(text) >= size) return 0;
    strcat(to, text);
    return 1;
}

static int write_all(int socket, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t written = send(socket, data, length, MSG_NOSIGNAL);
        if (written <= 0) return 0;
        data += written;
        length -= (size_t)written;
    }
    return 1;
}

int main(int count, char **words)
{
    static char body[BODY_MAX], head[256], answer[ANSWER_MAX + 1];
    const char *port = getenv("FIELDPOST_PORT");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)(port ? atoi(port) : 43770))};
    struct timeval patience = {.tv_sec = 30};
    size_t got = 0;
    ssize_t more;
    int socket_, status = 0;

    if (count != 4) {
        fprintf(stderr, "usage: alarm TO SUBJECT TEXT\n");
        return 64;
    }
    if (!add(body, sizeof body, "{\"type\":1,\"destination\":") || !add_string(body, sizeof body, words[1]) ||
        !add(body, sizeof body, ",\"subject\":") || !add_string(body, sizeof body, words[2]) ||
        !add(body, sizeof body, ",\"plain\":") || !add_string(body, sizeof body, words[3]) ||
        !add(body, sizeof body, "}")) {
        fprintf(stderr, "alarm: the text is too long\n");
        return 64;
    }
    snprintf(head, sizeof head,
             "POST /api/internal/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\nConnection: close\r\n\r\n",
             strlen(body));

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_ = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (socket_ < 0 || connect(socket_, (struct sockaddr *)&to, sizeof to) != 0 ||
        !write_all(socket_, head, strlen(head)) || !write_all(socket_, body, strlen(body))) {
        perror("alarm: Fieldpost cannot be reached");
        return LATER;
    }
    while (got < ANSWER_MAX && (more = recv(socket_, answer + got, ANSWER_MAX - got, 0)) > 0) got += (size_t)more;
    close(socket_);
    answer[got] = 0;
    if (sscanf(answer, "HTTP/1.1 %d", &status) != 1) {
        fprintf(stderr, "alarm: no answer\n");
        return LATER;
    }
    char *text = strstr(answer, "\r\n\r\n");
    puts(text ? text + 4 : answer);
    /* 429 and 507: the queue or the disk is full; 503: a restart. */
    return status == 202 ? 0 : status == 429 || status == 503 || status == 507 ? LATER : 1;
}
