/* Asks a server the same few questions again and again over connections that stay open, for tests/bench/symbols.
 *
 *   http-load PORT PATH CONNECTIONS SECONDS <BODIES
 *
 * Each line of stdin is the body of a POST; connections take them in turn, each has one request under way and sends the
 * next one as soon as its reply is whole. One thread waits for all of them, so that the client takes little of the time
 * that is measured. A tenth of the time goes by before requests count. On stdout "key value" lines: requests a second,
 * latencies in ms from the first byte sent to the last one received, and the bytes of the last reply. It fails when a
 * reply is not 200 or names no function. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct request {
	char *bytes; /* with its header */
	size_t size;
};

struct connection {
	int fd;
	const struct request *request;
	size_t sent;
	double start;
	char *reply;
	size_t size, capacity; /* received */
	size_t wanted;         /* of the whole reply; 0 = its header is not there yet */
	bool chunked;
};

struct run {
	struct request *requests;
	size_t request_count, next;
	double *latencies; /* ms */
	size_t latency_count, latency_capacity;
	size_t reply_size;
	double counts_from;
	int poll;
};

static void fail(const char *what)
{
	fprintf(stderr, "http-load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void read_requests(struct run *run, const char *path, const char *port)
{
	char *line = NULL;
	size_t capacity = 0;
	ssize_t length;
	while ((length = getline(&line, &capacity, stdin)) > 0) {
		length -= line[length - 1] == '\n';
		run->requests = realloc(run->requests, (run->request_count + 1) * sizeof(*run->requests));
		struct request *request = run->requests ? &run->requests[run->request_count++] : NULL;
		int size = request
		               ? asprintf(&request->bytes,
		                          "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nContent-Type: application/json\r\n"
		                          "Content-Length: %zd\r\n\r\n%.*s",
		                          path, port, length, (int)length, line)
		               : -1;
		if (size < 0)
			fail("memory");
		request->size = (size_t)size;
	}
	free(line);
}

static void watch(struct run *run, struct connection *c, int how, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = c };
	if (epoll_ctl(run->poll, how, c->fd, &event))
		fail("epoll_ctl");
}

/* Sends what is left of the request; waits for room only when there is none. */
static void send_on(struct run *run, struct connection *c)
{
	bool waited = c->sent;
	while (c->sent < c->request->size) {
		ssize_t done = send(c->fd, c->request->bytes + c->sent, c->request->size - c->sent, MSG_DONTWAIT);
		if (done < 0 && errno != EAGAIN)
			fail("send");
		if (done < 0) {
			watch(run, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
			return;
		}
		c->sent += (size_t)done;
	}
	if (waited)
		watch(run, c, EPOLL_CTL_MOD, EPOLLIN);
}

static void begin(struct run *run, struct connection *c)
{
	c->request = &run->requests[run->next++ % run->request_count];
	c->sent = c->size = c->wanted = 0;
	c->start = now();
	send_on(run, c);
}

/* Looks at the header once it is there. */
static void read_header(struct connection *c)
{
	const char *end = memmem(c->reply, c->size, "\r\n\r\n", 4);
	if (!end)
		return;
	size_t header = (size_t)(end - c->reply) + 4;
	char text[4096] = "";
	memcpy(text, c->reply, header < sizeof(text) ? header : sizeof(text) - 1);
	const char *length = strcasestr(text, "\r\nContent-Length:");
	if (strncmp(text, "HTTP/1.1 200", 12) != 0) {
		fprintf(stderr, "http-load: the reply is %.60s\n", text);
		exit(1);
	}
	c->chunked = !length;
	c->wanted = length ? header + strtoull(length + 17, NULL, 10) : SIZE_MAX;
}

static bool is_whole(struct connection *c)
{
	if (!c->wanted)
		read_header(c);
	if (c->wanted && c->chunked)
		return c->size > 5 && !memcmp(c->reply + c->size - 5, "0\r\n\r\n", 5);
	return c->wanted && c->size >= c->wanted;
}

static void finish(struct run *run, struct connection *c)
{
	double end = now();
	if (!memmem(c->reply, c->size, "\"function\"", 10)) {
		fprintf(stderr, "http-load: a reply names no function\n");
		exit(1);
	}
	run->reply_size = c->size;
	if (c->start < run->counts_from)
		return;
	if (run->latency_count == run->latency_capacity) {
		run->latency_capacity = run->latency_capacity ? 2 * run->latency_capacity : 65536;
		run->latencies = realloc(run->latencies, run->latency_capacity * sizeof(*run->latencies));
		if (!run->latencies)
			fail("memory");
	}
	run->latencies[run->latency_count++] = (end - c->start) * 1e3;
}

static void receive(struct run *run, struct connection *c)
{
	for (;;) {
		if (c->capacity - c->size < 65536) {
			c->capacity = 2 * c->capacity + 131072;
			c->reply = realloc(c->reply, c->capacity);
			if (!c->reply)
				fail("memory");
		}
		ssize_t got = recv(c->fd, c->reply + c->size, c->capacity - c->size, MSG_DONTWAIT);
		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0)
			fail("the server ended the connection");
		c->size += (size_t)got;
		if (is_whole(c)) {
			finish(run, c);
			begin(run, c);
			return;
		}
	}
}

static void connect_to(struct run *run, struct connection *c, const char *port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		                  .sin_port = htons((uint16_t)atoi(port)),
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1;
	c->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof(to)))
		fail("connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	watch(run, c, EPOLL_CTL_ADD, EPOLLIN);
	begin(run, c);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	struct run run = { .poll = epoll_create1(0) };
	struct epoll_event events[64];
	if (argc != 5)
		return 2;
	size_t count = strtoul(argv[3], NULL, 10);
	double seconds = strtod(argv[4], NULL), start = now();
	run.counts_from = start + seconds / 10;
	read_requests(&run, argv[2], argv[1]);
	struct connection *connections = calloc(count, sizeof(*connections));
	if (!connections || !run.request_count)
		fail("no requests");
	for (size_t i = 0; i < count; i++)
		connect_to(&run, &connections[i], argv[1]);
	while (now() < start + seconds || !run.latency_count) {
		int ready = epoll_wait(run.poll, events, 64, 1000);
		for (int i = 0; i < ready; i++) {
			struct connection *c = events[i].data.ptr;
			if (events[i].events & EPOLLOUT)
				send_on(&run, c);
			if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
				receive(&run, c);
		}
	}
	double took = now() - run.counts_from;
	qsort(run.latencies, run.latency_count, sizeof(*run.latencies), compare);
	printf("rate %.1f\np50 %.3f\np99 %.3f\nmax %.3f\nreply %zu\n", (double)run.latency_count / took,
	       run.latencies[run.latency_count / 2], run.latencies[run.latency_count * 99 / 100],
	       run.latencies[run.latency_count - 1], run.reply_size);
	return 0;
}
