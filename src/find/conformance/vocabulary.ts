/** The words of the made corpus, by language. All texts are made from these lists. */

export interface Language {
  readonly name: string;
  /** Words between content words; common in every text. */
  readonly common: readonly string[];
  readonly things: readonly string[];
  readonly actions: readonly string[];
  /** Parts of made words, so that the vocabulary is large. */
  readonly syllables: readonly string[];
  /** Between words; empty for scripts without spaces. */
  readonly space: string;
  readonly end: string;
}

const list = (text: string): readonly string[] => text.trim().split(/\s+/);

const english: Language = {
  name: 'English',
  common: list(
    'the a of to and in for with on by from that this was is are we it as at but not has had will',
  ),
  things: list(`database queue cache index schema token invoice customer order payment shipment report budget
    contract meeting deadline release branch commit build pipeline cluster server client session message channel room
    agent task worker lease lock retry timeout error failure outage backup restore migration table column row key value
    document note summary plan roadmap design review test bug patch feature request response header body cookie login
    password policy rule limit quota price discount currency region country language translation weather garden kitchen
    recipe engine battery sensor camera printer keyboard monitor network router firewall certificate domain address`),
  actions:
    list(`deploy choose migrate measure index restart reject approve compare replace remove install configure
    monitor repair record translate schedule cancel deliver publish rotate encrypt compress import export validate`),
  syllables: list(
    'ba co di fu ga he jo ki lu ma ne po qua ri sa te vu wa xe yo zin bra cle dro fri gla sto ple',
  ),
  space: ' ',
  end: '.',
};

const german: Language = {
  name: 'German',
  common: list('der die das und ist nicht mit von zu im für auf dem den ein eine wir es als auch wird'),
  things:
    list(`Datenbank Rechnung Kunde Auftrag Vertrag Sitzung Bericht Haushalt Schlüssel Größe Straße Prüfung
    Änderung Übersicht Fehler Ausfall Sicherung Tabelle Spalte Zeile Wetter Garten Küche Brücke Fahrrad Zug Bahnhof`),
  actions: list(
    'prüfen ändern löschen speichern verschieben messen wählen ersetzen planen liefern bestätigen',
  ),
  syllables: list('bau stein berg wald haus tor grund feld kraft werk zeug mann licht stoff ring bach'),
  space: ' ',
  end: '.',
};

const french: Language = {
  name: 'French',
  common: list('le la les un une des et est dans pour avec sur que qui nous pas ce cette au du'),
  things:
    list(`facture commande client contrat réunion rapport clé données requête réponse sauvegarde échec panne
    été forêt élève école hôpital château théâtre fenêtre déjeuner métier côté idée problème système réseau`),
  actions: list('choisir déployer mesurer remplacer vérifier annuler livrer publier réparer créer supprimer'),
  syllables: list('mar len sou bel cha pré tou vil gra mon fér lou ran sel vou cré'),
  space: ' ',
  end: '.',
};

const russian: Language = {
  name: 'Russian',
  common: list('и в не на что он с как это по но из у за от для мы был так'),
  things:
    list(`база данных счёт клиент заказ договор встреча отчёт бюджет ключ ошибка сбой таблица строка сервер
    сообщение задача очередь погода сад кухня мост поезд вокзал письмо книга школа больница театр река лес`),
  actions: list('выбрать измерить заменить удалить проверить отправить починить создать отменить перенести'),
  syllables: list('ка ро ли се та но ве ду зи мо па ре ша гу до фи'),
  space: ' ',
  end: '.',
};

const greek: Language = {
  name: 'Greek',
  common: list('και το η ο στο με για από δεν είναι που τα οι ένα μια θα'),
  things: list(`βάση δεδομένων πελάτης παραγγελία συμβόλαιο συνάντηση έκθεση κλειδί σφάλμα πίνακας μήνυμα ουρά
    καιρός κήπος κουζίνα γέφυρα τρένο σταθμός βιβλίο σχολείο θέατρο ποταμός δάσος θάλασσα ήλιος`),
  actions: list('επιλέγω μετρώ αλλάζω διαγράφω ελέγχω στέλνω επισκευάζω δημιουργώ ακυρώνω'),
  syllables: list('κα λο μι νε ρα τυ σο πε δι γα θε φο χι βα'),
  space: ' ',
  end: '.',
};

const chinese: Language = {
  name: 'Chinese',
  common: list('的 了 在 是 我们 和 不 有 这 为 与 也 就 对'),
  things:
    list(`数据库 发票 客户 订单 合同 会议 报告 预算 密钥 错误 故障 表格 服务器 消息 任务 队列 天气 花园 厨房 桥梁
    火车 车站 书籍 学校 医院 剧院 河流 森林 海洋 太阳 月亮 电池 相机`),
  actions: list('选择 部署 测量 替换 删除 检查 发送 修理 创建 取消 迁移 发布'),
  syllables: list('山 水 木 金 土 火 风 云 石 田 竹 松 梅 兰 江 湖 城 门 路 星'),
  space: '',
  end: '。',
};

const japanese: Language = {
  name: 'Japanese',
  common: list('は が を に の と で も へ から まで です'),
  things:
    list(`データベース 請求書 顧客 注文 契約 会議 報告 予算 鍵 エラー 障害 表 サーバー メッセージ タスク 天気 庭 台所
    橋 電車 駅 本 学校 病院 劇場 川 森 海 太陽 月 電池`),
  actions: list('選ぶ 測る 替える 消す 調べる 送る 直す 作る 取り消す 移す'),
  syllables: list('か き く け こ さ し す せ そ た ち つ て と な に ぬ ね の'),
  space: '',
  end: '。',
};

const korean: Language = {
  name: 'Korean',
  common: list('그리고 이 그 는 을 에서 우리 위해 때문에 또한'),
  things:
    list(`데이터베이스 청구서 고객 주문 계약 회의 보고서 예산 열쇠 오류 장애 표 서버 메시지 작업 날씨 정원 부엌
    다리 기차 역 책 학교 병원 극장 강 숲 바다 태양 달`),
  actions: list('선택하다 측정하다 교체하다 삭제하다 확인하다 보내다 고치다 만들다 취소하다'),
  syllables: list('가 나 다 라 마 바 사 아 자 차 카 타 파 하 고 노'),
  space: ' ',
  end: '.',
};

const arabic: Language = {
  name: 'Arabic',
  common: list('في من على إلى و هذا التي مع عن لا كان قد'),
  things:
    list(`قاعدة بيانات فاتورة عميل طلب عقد اجتماع تقرير ميزانية مفتاح خطأ عطل جدول خادم رسالة مهمة طقس حديقة
    مطبخ جسر قطار محطة كتاب مدرسة مستشفى مسرح نهر غابة بحر شمس قمر`),
  actions: list('يختار يقيس يستبدل يحذف يفحص يرسل يصلح ينشئ يلغي'),
  syllables: list('با تا جا دا را سا شا عا فا قا كا لا ما نا'),
  space: ' ',
  end: '.',
};

/** English is half of the corpus; the others share the rest. */
export const languages: readonly Language[] = [
  english,
  german,
  french,
  russian,
  greek,
  chinese,
  japanese,
  korean,
  arabic,
];

/** English words in other forms: what a note says, and what a question asks. */
export const wordForms: readonly (readonly [said: string, asked: string])[] = [
  ['deployed', 'deploy'],
  ['deploying', 'deployed'],
  ['migrations', 'migration'],
  ['migrated', 'migrating'],
  ['chose', 'choose'],
  ['choosing', 'chosen'],
  ['indexes', 'indexing'],
  ['retries', 'retry'],
  ['stopped', 'stopping'],
  ['failures', 'failure'],
  ['cancelled', 'cancel'],
  ['measured', 'measurement'],
  ['installation', 'install'],
  ['replaced', 'replacing'],
  ['policies', 'policy'],
  ['batteries', 'battery'],
  ['queries', 'query'],
  ['written', 'wrote'],
  ['configuration', 'configure'],
  ['encrypted', 'encryption'],
  ['validated', 'validation'],
  ['compressed', 'compression'],
  ['certificates', 'certificate'],
  ['branches', 'branch'],
  ['addresses', 'address'],
  ['rotating', 'rotated'],
  ['scheduled', 'schedules'],
  ['rejected', 'rejecting'],
  ['approved', 'approves'],
  ['translated', 'translation'],
  ['delivered', 'delivery'],
  ['publishes', 'published'],
  ['restored', 'restoring'],
  ['matches', 'matching'],
  ['removed', 'removal'],
  ['planned', 'planning'],
  ['shipped', 'shipping'],
  ['refused', 'refusing'],
  ['carefully', 'careful'],
  ['quickly', 'quick'],
];

export const codeVerbs = list('get set find load save send parse build read make list check open close');
export const codeNouns = list(
  'user invoice order token session cache queue room agent task lease key value page row',
);
export const codeEndings = list('ById ByName ForUser FromCache InBatch OrNull AsText WithLock');
export const codeFolders = list('src lib test bench app core api server client tools');
export const codeFiles = list('app main index store queue router writer reader schema types config worker');
