/*
 * A disk that is well, for smartd: loaded with LD_PRELOAD it answers the admin commands of NVMe for whatever file smartd has
 * opened. It needs no header, so that a small compiler makes it.
 */
enum { IDENTIFY = 0x06, KELVIN = 300 };
#define ADMIN_CMD 0xC0484E41UL
#define NAMESPACE_ID 0x4E40UL

/* struct nvme_passthru_cmd of linux/nvme_ioctl.h */
struct command {
  unsigned char opcode, flags;
  unsigned short reserved;
  unsigned int namespace_id, cdw2, cdw3;
  unsigned long metadata, data;
  unsigned int metadata_octets, data_octets, cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, timeout_ms, result;
};

int ioctl(int file, unsigned long request, struct command *command)
{
  unsigned int at;
  unsigned char *data;

  if (request == NAMESPACE_ID) return 1;
  if (request != ADMIN_CMD) return -1;
  data = (unsigned char *)command->data;
  for (at = 0; at < command->data_octets; at++) data[at] = 0;
  command->result = 0;
  if (command->opcode == IDENTIFY) {
    /* The serial number, the model, the firmware. */
    for (at = 4; at < 72; at++) data[at] = 'x';
    /* One namespace. */
    data[516] = 1;
  } else if (command->data_octets >= 512 && (command->cdw10 & 0xff) == 2) {
    data[1] = KELVIN & 0xff;
    data[2] = KELVIN >> 8;
    /* All of its spare blocks. */
    data[3] = 100;
  }
  return 0;
}
