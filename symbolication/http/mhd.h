/* libmicrohttpd, loaded when the first server starts (common/library.h): its functions are called by their own names.
 */
#ifndef SP_SYMBOLICATION_HTTP_MHD_H
#define SP_SYMBOLICATION_HTTP_MHD_H

#include "common/library.h"

#include <microhttpd.h>

#define HTTP_MHD_FUNCTIONS(X)                      \
	X(MHD_add_response_header)                 \
	X(MHD_create_response_from_buffer)         \
	X(MHD_create_response_from_fd64)           \
	X(MHD_create_response_from_fd_at_offset64) \
	X(MHD_destroy_response)                    \
	X(MHD_get_connection_info)                 \
	X(MHD_lookup_connection_value)             \
	X(MHD_queue_response)                      \
	X(MHD_resume_connection)                   \
	X(MHD_start_daemon)                        \
	X(MHD_stop_daemon)                         \
	X(MHD_suspend_connection)

struct http_mhd {
	HTTP_MHD_FUNCTIONS(SP_LIBRARY_MEMBER)
};
extern struct http_mhd http_mhd;

/* Loads it unless it is there. In any thread. */
struct sp_error *http_need_mhd(void);

#define MHD_add_response_header http_mhd.MHD_add_response_header
#define MHD_create_response_from_buffer http_mhd.MHD_create_response_from_buffer
#define MHD_create_response_from_fd64 http_mhd.MHD_create_response_from_fd64
#define MHD_create_response_from_fd_at_offset64 http_mhd.MHD_create_response_from_fd_at_offset64
#define MHD_destroy_response http_mhd.MHD_destroy_response
#define MHD_get_connection_info http_mhd.MHD_get_connection_info
#define MHD_lookup_connection_value http_mhd.MHD_lookup_connection_value
#define MHD_queue_response http_mhd.MHD_queue_response
#define MHD_resume_connection http_mhd.MHD_resume_connection
#define MHD_start_daemon http_mhd.MHD_start_daemon
#define MHD_stop_daemon http_mhd.MHD_stop_daemon
#define MHD_suspend_connection http_mhd.MHD_suspend_connection

#endif
