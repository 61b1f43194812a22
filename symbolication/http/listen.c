/* The listening socket. */
#include "internal.h"

#include <errno.h>
#include <string.h>
#ifdef _WIN32
#include <winsock2.h>
#include <ws2tcpip.h>
#else
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>
#endif

void http_close_socket(int fd)
{
#ifdef _WIN32
	closesocket((SOCKET)fd);
#else
	close(fd);
#endif
}

void http_cut_socket(int fd)
{
#ifdef _WIN32
	shutdown((SOCKET)fd, SD_BOTH);
#else
	shutdown(fd, SHUT_RDWR);
#endif
}

void http_reset_socket(int fd)
{
#ifdef __linux__
	/* Dissolving the association sends the reset at once, whatever is done with the socket after. */
	(void)connect(fd, &(struct sockaddr){ .sa_family = AF_UNSPEC }, sizeof(struct sockaddr));
#else
	struct linger none = { 1, 0 };
	setsockopt(fd, SOL_SOCKET, SO_LINGER, (const void *)&none, sizeof(none));
#endif
}

static int socket_error(void)
{
#ifdef _WIN32
	int code = WSAGetLastError();
	return code == WSAEADDRINUSE      ? EADDRINUSE
	       : code == WSAEACCES        ? EACCES
	       : code == WSAEADDRNOTAVAIL ? EADDRNOTAVAIL
	                                  : EIO;
#else
	return errno;
#endif
}

/* Binds and listens; -1 with errno set. */
static int listen_on(const struct addrinfo *info)
{
	int on = 1;
	int fd = (int)socket(info->ai_family, info->ai_socktype, info->ai_protocol);
	if (fd < 0) {
		errno = socket_error();
		return -1;
	}
#ifdef _WIN32
	setsockopt((SOCKET)fd, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&on, sizeof(on));
#else
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	/* A port that an ended server used a moment ago is free. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
#endif
	if (info->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, (const void *)&on, sizeof(on));
	if (bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, 128)) {
		errno = socket_error();
		http_close_socket(fd);
		return -1;
	}
	return fd;
}

static uint16_t *port_of(struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? &((struct sockaddr_in6 *)address)->sin6_port
	                                      : &((struct sockaddr_in *)address)->sin_port;
}

struct sp_error *http_listen(const char *address, uint16_t port, unsigned attempts, int *ret, uint16_t *ret_port)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
		                  .ai_socktype = SOCK_STREAM,
		                  .ai_flags = AI_NUMERICHOST | AI_PASSIVE };
	struct addrinfo *info = NULL;
#ifdef _WIN32
	WSADATA data;
	WSAStartup(MAKEWORD(2, 2), &data);
#endif
	if (getaddrinfo(address, NULL, &hints, &info) || !info)
		return sp_error_create(SP_ERROR_USAGE, "\"%s\" is not an IPv4 or IPv6 address", address);
	int fd = -1, errnum = 0;
	for (unsigned i = 0; i < (attempts ? attempts : 1) && port + i <= UINT16_MAX; i++) {
		*port_of(info->ai_addr) = htons((uint16_t)(port + i));
		fd = listen_on(info);
		if (fd >= 0)
			break;
		errnum = errno;
		if (errnum != EADDRINUSE && errnum != EACCES)
			break;
	}
	freeaddrinfo(info);
	if (fd < 0)
		return attempts > 1 ? sp_error_from_errno(errnum, "cannot listen on %s, ports %u to %u", address, port,
		                                          port + attempts - 1)
		                    : sp_error_from_errno(errnum, "cannot listen on %s port %u", address, port);
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} bound = { 0 };
	socklen_t bound_size = sizeof(bound);
	if (getsockname(fd, &bound.any, &bound_size)) {
		errnum = socket_error();
		http_close_socket(fd);
		return sp_error_from_errno(errnum, "cannot listen on %s", address);
	}
	*ret = fd;
	*ret_port = ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
	return NULL;
}
